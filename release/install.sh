#!/bin/sh
# Installs segno @VERSION@: downloads the archive for this machine, compares it with its checksum, and copies segno and
# segno-hook into ~/.local/bin. These variables change it:
#
#   SEGNO_BIN        the directory of the programs
#   SEGNO_DOWNLOADS  the address of a directory with the archives and checksums.txt
set -eu

fail() {
	echo "install segno: $1" >&2
	echo "nothing was installed" >&2
	exit 1
}

# fetch downloads the address $1 into the file $2. An https address never leads to an unencrypted one.
fetch() {
	protocols='=https'
	case $1 in http://*) protocols='=http,https' ;; esac
	if command -v curl >/dev/null; then
		curl -fsSL --proto "$protocols" -o "$2" "$1"
	elif command -v wget >/dev/null; then
		wget -q -O "$2" "$1"
	else
		fail "it needs curl or wget"
	fi
}

# sha256 prints the checksum of the file $1.
sha256() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "it needs sha256sum or shasum to check the download"
	fi
}

# main is called at the end, so that a part of this script does nothing.
main() {
	from=${SEGNO_DOWNLOADS:-https://github.com/dalsegno/segno/releases/download/v@VERSION@}
	to=${SEGNO_BIN:-$HOME/.local/bin}
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no build for $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no build for $(uname -m)" ;;
	esac
	name=segno_@VERSION@_${os}_$arch

	temp=$(mktemp -d)
	trap 'rm -rf "$temp" "$to/.segno.$$" "$to/.segno-hook.$$"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch "$from/checksums.txt" "$temp/checksums.txt" || fail "cannot download $from/checksums.txt"
	expected=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' "$temp/checksums.txt")
	[ ${#expected} -eq 64 ] || fail "$from/checksums.txt has no checksum of $name.tar.gz"
	fetch "$from/$name.tar.gz" "$temp/$name.tar.gz" || fail "cannot download $from/$name.tar.gz"
	actual=$(sha256 "$temp/$name.tar.gz")
	[ "$actual" = "$expected" ] || fail "$name.tar.gz has the checksum $actual, and checksums.txt has $expected"

	tar -xzf "$temp/$name.tar.gz" -C "$temp"
	mkdir -p "$to" || fail "cannot create $to"
	for program in segno-hook segno; do # both, before the first one replaces an earlier one
		[ ! -d "$to/$program" ] || fail "$to/$program is a directory" # mv would move the program into it
		cp "$temp/$name/$program" "$to/.$program.$$" || fail "cannot write to $to"
	done
	# A system may be too old for the program, or run no programs of this directory.
	version=$("$to/.segno.$$" version) || fail "the program does not run on this machine"
	for program in segno-hook segno; do # a rename replaces a program that is running
		mv -f "$to/.$program.$$" "$to/$program"
	done
	echo "installed in $to: $version"
	case :$PATH: in
	*:"$to":*) echo "next: segno enable claude (or codex, gemini, opencode)" ;;
	*) echo "next: add $to to PATH, then: segno enable claude (or codex, gemini, opencode)" ;;
	esac
}

main
