package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheInstallerReplacesBothProgramsOrNone lets the installer fail while it copies the second program, as on a full disk. The programs
// of an earlier installation stay, both of them, and nothing else remains.
func TestTheInstallerReplacesBothProgramsOrNone(t *testing.T) {
	m := newMachine(t, "curl", "sha256sum")
	r := &release{source: source{version: "0.0.0-gtest", time: time.Unix(1, 0)}, platforms: []platform{host()}, binaries: map[platform][]entry{
		host(): {{"segno", 0o755, []byte("#!/bin/sh\necho new\n")}, {"segno-hook", 0o755, []byte("#!/bin/sh\necho new\n")}}}}
	files, err := r.archives()
	if err != nil {
		t.Fatal(err)
	}
	installer, err := r.installer()
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	for _, f := range append(files, entry{name: "checksums.txt", data: checksums(files)}, installer[0]) {
		if err := os.WriteFile(filepath.Join(dist, f.name), f.data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer server.Close()
	bin := filepath.Join(m.home, ".local/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	programs := []string{"segno", "segno-hook"}
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho old\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install := func() (string, error) {
		return m.try([]string{"SEGNO_DOWNLOADS=" + server.URL}, filepath.Join(m.bin, "sh"), filepath.Join(dist, "install.sh"))
	}
	want := func(text string) {
		t.Helper()
		for _, name := range programs {
			if got := m.run(filepath.Join(bin, name)); got != text {
				t.Errorf("%s prints %q, want %q", name, got, text)
			}
		}
		there, err := os.ReadDir(bin)
		if err != nil || len(there) != len(programs) {
			t.Errorf("the directory has %v, %v", there, err)
		}
	}

	cp := filepath.Join(m.bin, "cp")
	full := read(t, cp)
	if err := os.WriteFile(cp, []byte("#!/bin/sh\ncase $1 in */segno) echo part >\"$2\"; exit 1 ;; esac\n"+strings.TrimPrefix(full, "#!/bin/sh\n")), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := install(); err == nil || !strings.Contains(out, "nothing was installed") {
		t.Errorf("on a full disk: %v\n%s", err, out)
	}
	want("old\n")
	if err := os.WriteFile(cp, []byte(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := install(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	want("new\n")
}
