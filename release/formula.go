package main

import (
	_ "embed"
	"fmt"
	"strings"
)

// downloads returns the address of the directory of a release.
func (r *release) downloads() string { return homepage + "/releases/download/v" + r.version }

// formula returns the formula of Homebrew, which installs from the archives of files.
func (r *release) formula(files []entry) entry {
	var b strings.Builder
	fmt.Fprintf(&b, `class Segno < Formula
  desc "%s"
  homepage "%s"
  version "%s"
  license "Apache-2.0"
`, description, homepage, r.version)
	for _, system := range []struct{ os, word string }{{"darwin", "macos"}, {"linux", "linux"}} {
		var urls strings.Builder
		for _, cpu := range []struct{ arch, word string }{{"amd64", "intel"}, {"arm64", "arm"}} {
			name := fmt.Sprintf("segno_%s_%s.tar.gz", r.version, platform{system.os, cpu.arch})
			for _, f := range files {
				if f.name == name {
					fmt.Fprintf(&urls, "    on_%s do\n      url \"%s/%s\"\n      sha256 \"%s\"\n    end\n", cpu.word, r.downloads(), name, checksum(f.data))
				}
			}
		}
		if urls.Len() > 0 {
			fmt.Fprintf(&b, "\n  on_%s do\n%s  end\n", system.word, urls.String())
		}
	}
	b.WriteString(`
  def install
    bin.install "segno", "segno-hook"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/segno.bash" => "segno"
    zsh_completion.install "completions/segno.zsh" => "_segno"
    fish_completion.install "completions/segno.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/segno version")
    assert_match "undo t4", shell_output("#{bin}/segno demo")
  end
end
`)
	return entry{name: "segno.rb", data: []byte(b.String())}
}

//go:embed install.sh
var installScript string

// installer returns the script that installs the archive of the machine on which it runs.
func (r *release) installer() ([]entry, error) {
	return []entry{{name: "install.sh", mode: 0o755, data: []byte(strings.ReplaceAll(installScript, "@VERSION@", r.version))}}, nil
}
