package archive

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"github.com/dalsegno/segno"
)

// sshKey returns a private key in the format of ssh-keygen, and its public line.
func sshKey(t *testing.T) (private []byte, public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "ann")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func TestSignatures(t *testing.T) {
	dir := t.TempDir()
	private, public := sshKey(t)
	_, other := sshKey(t)
	sign, err := Signer(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "a.ckpt")
	m := mustWrite(t, name, village(), WriteOptions{Sign: sign})
	r, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	allowed := "# the team\nbob@example.org " + other + "\nann@example.org namespaces=\"git,segno-ckpt\" " + public + " ann's laptop\n"
	if who, err := r.SignedBy([]byte(allowed)); err != nil || who != "ann@example.org" {
		t.Errorf("signed by %q, %v", who, err)
	}
	for list, kind := range map[string]segno.Kind{
		"bob@example.org " + other: segno.KindRefused, "": segno.KindRefused,
		"ann@example.org namespaces=\"git\" " + public: segno.KindRefused, "ann@example.org ssh-ed25519 !": segno.KindInvalid,
	} {
		if _, err := r.SignedBy([]byte(list)); !errors.Is(err, kind) {
			t.Errorf("%q: %v", list, err)
		}
	}
	// OpenSSH accepts the signature, too.
	allowedFile, signature := filepath.Join(dir, "allowed"), filepath.Join(dir, "sig")
	if err := errors.Join(os.WriteFile(allowedFile, []byte(allowed), 0o600), os.WriteFile(signature, r.signature, 0o600)); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", allowedFile, "-I", "ann@example.org", "-n", "segno-ckpt", "-s", signature)
	c.Stdin = strings.NewReader(m.Digest)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("ssh-keygen: %v\n%s", err, out)
	}
	// The signature of one state is not valid for another.
	changed := village()
	changed.Agents[1].Workspace[0] = content("a.txt", "b")
	stolen := filepath.Join(dir, "b.ckpt")
	mustWrite(t, stolen, changed, WriteOptions{Sign: func(string) ([]byte, error) { return r.signature, nil }})
	s, err := Open(stolen)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.SignedBy([]byte(allowed)); !errors.Is(err, segno.KindCorrupt) {
		t.Errorf("a stolen signature: %v", err)
	}
}

func TestSealedArchives(t *testing.T) {
	dir := t.TempDir()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	private, public := sshKey(t)
	recipients := make([]age.Recipient, 2)
	for i, text := range []string{key.Recipient().String(), public} {
		if recipients[i], err = ParseRecipient(text); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "a.ckpt")
	m := mustWrite(t, name, village(), WriteOptions{Recipients: recipients})
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("manifest.json")) {
		t.Error("names are in the clear")
	}
	if sealed, err := IsSealed(name); !sealed || err != nil {
		t.Errorf("sealed %v, %v", sealed, err)
	}
	for _, file := range [][]byte{private, []byte("# a key\n" + key.String() + "\n")} {
		ids, err := ParseIdentities(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := OpenSealed(name, ids...)
		if err != nil {
			t.Fatal(err)
		}
		if r.Manifest().Digest != m.Digest || r.Verify(t.Context(), nil) != nil {
			t.Error("the content differs")
		}
		r.Close()
	}
	stranger, _ := age.GenerateX25519Identity()
	if _, err := OpenSealed(name, stranger); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a stranger's key: %v", err)
	}
	if _, err := Open(name); !errors.Is(err, segno.KindCorrupt) {
		t.Errorf("without a key: %v", err)
	}
}
