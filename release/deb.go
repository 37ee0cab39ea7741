package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"path"
	"strings"
)

const (
	homepage    = "https://github.com/dalsegno/segno"
	description = "Checkpoints for AI agents: undo, redo, restore and fork with the files"
)

// debs returns the Debian package of each architecture of Linux.
func (r *release) debs() (files []entry, err error) {
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		data, err := r.deb(p)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: fmt.Sprintf("segno_%s_%s.deb", r.debVersion(), p.arch), data: data})
	}
	return files, nil
}

// debVersion returns the version in Debian's order, in which "~" sorts before the end: 1.2.0~rc1 before 1.2.0.
func (r *release) debVersion() string { return strings.ReplaceAll(r.version, "-", "~") }

// deb returns a Debian package: an ar file of two tar files, which are the description and the content. The binaries are
// static, so the package depends on nothing.
func (r *release) deb(p platform) ([]byte, error) {
	content, err := r.debContent(p)
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	size := 0
	for _, e := range content {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(e.data), strings.TrimPrefix(e.name, "./"))
		size += (len(e.data) + 1023) / 1024
	}
	about := fmt.Sprintf(`Package: segno
Version: %s
Architecture: %s
Maintainer: The segno authors
Installed-Size: %d
Section: devel
Priority: optional
Homepage: %s
Description: %s
 segno makes a checkpoint of the conversation and the files after every
 turn of an AI coding agent. Each turn can be undone, also its changes to
 files that git does not know.
`, r.debVersion(), p.arch, size, homepage, description)
	control, err := tarball([]entry{{name: "./control", data: []byte(about)}, {name: "./md5sums", data: sums.Bytes()}}, r.time)
	if err != nil {
		return nil, err
	}
	data, err := tarball(content, r.time)
	if err != nil {
		return nil, err
	}
	return r.ar([]entry{{name: "debian-binary", data: []byte("2.0\n")}, {name: "control.tar.gz", data: control}, {name: "data.tar.gz", data: data}}), nil
}

// debContent returns the files that the package installs.
func (r *release) debContent(p platform) ([]entry, error) {
	content := in("usr/bin", r.binaries[p])
	for _, e := range r.manuals {
		data, err := compress(e.data) // Debian's policy asks for compressed man pages
		if err != nil {
			return nil, err
		}
		content = append(content, entry{name: "usr/share/man/man1/" + path.Base(e.name) + ".gz", data: data})
	}
	for _, e := range r.completed {
		content = append(content, entry{data: e.data, name: "usr/share/" + map[string]string{
			".bash": "bash-completion/completions/segno",
			".zsh":  "zsh/vendor-completions/_segno",
			".fish": "fish/vendor_completions.d/segno.fish",
		}[path.Ext(e.name)]})
	}
	for _, e := range r.texts {
		if e.name == "LICENSE" {
			e.name = "copyright"
		}
		e.name = "usr/share/doc/segno/" + e.name
		content = append(content, e)
	}
	for i := range content {
		content[i].name = "./" + content[i].name
	}
	return content, nil
}

// ar returns an ar file in the common form of System V and BSD: a header of 60 bytes before each file, which begins at an
// even offset.
func (r *release) ar(files []entry) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", f.name, r.time.Unix(), 0, 0, "100644", len(f.data))
		b.Write(f.data)
		if len(f.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
