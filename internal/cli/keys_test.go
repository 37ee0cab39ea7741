package cli_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// cmdKeys makes the files NAME and NAME.pub with keys, in the format of ssh-keygen or of
// age-keygen. With -passphrase, the SSH private key has the passphrase "open".
//
//	keys ssh|age [-passphrase] NAME
func cmdKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: keys ssh|age [-passphrase] NAME")
	}
	name := ts.MkAbs(args[len(args)-1])
	var private, public []byte
	if args[0] == "age" {
		id, err := age.GenerateX25519Identity()
		ts.Check(err)
		private, public = []byte("# a key\n"+id.String()+"\n"), []byte("# ann\n"+id.Recipient().String()+"\n")
	} else {
		pub, priv, err := ed25519.GenerateKey(nil)
		ts.Check(err)
		block, err := ssh.MarshalPrivateKey(priv, "ann")
		if len(args) > 2 {
			block, err = ssh.MarshalPrivateKeyWithPassphrase(priv, "ann", []byte("open"))
		}
		ts.Check(err)
		key, err := ssh.NewPublicKey(pub)
		ts.Check(err)
		private, public = pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(key)
	}
	ts.Check(os.WriteFile(name, private, 0o600))
	ts.Check(os.WriteFile(name+".pub", public, 0o644))
}
