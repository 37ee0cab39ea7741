package main

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// testNPM installs the packages with npm from a registry on this machine that has only them. npm must choose the package of
// this platform among the optional dependencies.
func (r *produced) testNPM(t *testing.T) {
	registry := r.newRegistry(t)
	m := newMachine(t, "node", "npm")
	prefix := filepath.Join(m.home, "prefix")
	m.run("npm", "install", "--global", "--prefix", prefix, "--registry", registry, "--no-audit", "--no-fund", "--no-update-notifier", "@dalsegno/segno@0.0.0-gtest")
	m.demo(filepath.Join(prefix, "bin/segno"))
	// npm nests the package of the platform or puts it beside the launcher.
	found, err := filepath.Glob(filepath.Join(prefix, "lib/node_modules/@dalsegno/segno/node_modules/@dalsegno/*"))
	want := fmt.Sprintf("segno-%s-%s", runtime.GOOS, strings.Replace(runtime.GOARCH, "amd64", "x64", 1))
	if err != nil || len(found) != 1 || filepath.Base(found[0]) != want {
		t.Errorf("npm installed %v (%v), want only %s", found, err, want)
	}
	if out, err := m.try(nil, filepath.Join(prefix, "bin/segno-hook"), "hook", "claude"); err != nil {
		t.Errorf("segno-hook: %v\n%s", err, out)
	}
	// Without the package of the platform, the launcher names it.
	for _, dir := range found {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := m.try(nil, filepath.Join(prefix, "bin/segno"), "version"); err == nil || !strings.Contains(out, "@dalsegno/"+want) {
		t.Errorf("without its package: %v\n%s", err, out)
	}
}

// newRegistry serves the produced packages as npm's registry does, and returns its address.
func (r *produced) newRegistry(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(r.file("npm/*.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]map[string]any{}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, file := range files {
		data := []byte(read(t, file))
		manifest := map[string]any{}
		entries, err := untar(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.name == "package/package.json" {
				if err := json.Unmarshal(e.data, &manifest); err != nil {
					t.Fatal(err)
				}
			}
		}
		sum := sha512.Sum512(data)
		manifest["dist"] = map[string]string{"tarball": server.URL + "/files/" + filepath.Base(file), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		name, version := manifest["name"].(string), manifest["version"].(string)
		documents["/"+name] = map[string]any{"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest}}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		if document := documents[req.URL.Path]; document != nil {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(document)
			return
		}
		if name, ok := strings.CutPrefix(req.URL.Path, "/files/"); ok {
			http.ServeFile(w, req, r.file(filepath.Join("npm", name)))
			return
		}
		http.NotFound(w, req)
	})
	return server.URL
}
