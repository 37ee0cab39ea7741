package archive

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
)

// TestArchivesOfFormerVersionsLoad loads the archives that the first release of each format
// wrote, with every part that an archive can have. They are never written again, because an archive
// that a user has stored must stay readable. Under -update the test creates a missing directory.
func TestArchivesOfFormerVersionsLoad(t *testing.T) {
	dir := filepath.Join("testdata", "ckpt-1")
	if _, err := os.Stat(dir); *update && errors.Is(err, fs.ErrNotExist) {
		writeFixtures(t, dir)
	}
	var want struct {
		Digest, Base string
		Tree         map[string]string
	}
	text, err := os.ReadFile(filepath.Join(dir, "want.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "key.txt"))
	if err != nil {
		t.Fatal(err)
	}
	identities, err := ParseIdentities(key)
	if err != nil {
		t.Fatal(err)
	}
	base, err := Open(filepath.Join(dir, "base.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if base.Manifest().Digest != want.Base {
		t.Errorf("the base has the digest %s, not %s", base.Manifest().Digest, want.Base)
	}
	for _, name := range []string{"full.ckpt", "deflate.ckpt", "delta.ckpt", "encrypted.ckpt"} {
		r, err := OpenSealed(filepath.Join(dir, name), identities...)
		if name != "encrypted.ckpt" {
			r, err = Open(filepath.Join(dir, name))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer r.Close()
		into := Into{Dir: filepath.Join(t.TempDir(), "loaded"), TrustSession: true}
		if name == "delta.ckpt" {
			into.Base = base
		}
		if _, err := r.Load(t.Context(), into); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want.Tree, hashedTree(t, into.Dir)); diff != "" || r.Manifest().Digest != want.Digest {
			t.Errorf("%s has the digest %s and the files (-want +got)\n%s", name, r.Manifest().Digest, diff)
		}
	}
	signers, err := os.ReadFile(filepath.Join(dir, "allowed_signers"))
	if err != nil {
		t.Fatal(err)
	}
	full, err := Open(filepath.Join(dir, "full.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if who, err := full.SignedBy(signers); err != nil || who != "segno@example.org" {
		t.Errorf("signed by %q, %v", who, err)
	}
}

// hashedTree is tree with a hash in place of each long content.
func hashedTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := tree(t, dir)
	for name, text := range found {
		if len(text) > 200 {
			found[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		}
	}
	return found
}

// writeFixtures writes the archives of a directory that does not exist yet.
func writeFixtures(t *testing.T, dir string) {
	t.Helper()
	private, public := sshKey(t)
	sign, err := Signer(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	earlier := village()
	earlier.Agents = slices.Clone(earlier.Agents)
	earlier.Agents[0].Session = []File{content("projects/@cwd/24b03553.jsonl", `{"type":"user","text":"hello\nthere"}`+"\n")}
	base := mustWrite(t, filepath.Join(dir, "base.ckpt"), earlier, WriteOptions{})
	full := mustWrite(t, filepath.Join(dir, "full.ckpt"), village(), WriteOptions{Sign: sign})
	mustWrite(t, filepath.Join(dir, "deflate.ckpt"), village(), WriteOptions{Deflate: true})
	mustWrite(t, filepath.Join(dir, "delta.ckpt"), village(), WriteOptions{Since: &Base{Manifest: base, Name: "base.ckpt"}})
	mustWrite(t, filepath.Join(dir, "encrypted.ckpt"), village(), WriteOptions{Recipients: []age.Recipient{identity.Recipient()}})
	loaded := filepath.Join(t.TempDir(), "loaded")
	if _, err := Load(t.Context(), filepath.Join(dir, "full.ckpt"), Into{Dir: loaded, TrustSession: true}); err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(map[string]any{"Digest": full.Digest, "Base": base.Digest, "Tree": hashedTree(t, loaded)}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "want.json"), append(want, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "key.txt"), []byte(identity.String()+"\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "allowed_signers"), []byte("segno@example.org "+public+"\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}
