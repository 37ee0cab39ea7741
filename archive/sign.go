package archive

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/dalsegno/segno"
)

// Signatures have the format of ssh-keygen -Y sign and cover the text of the state digest, so that
// ssh-keygen -Y verify checks them, too:
//
//	printf sha256:%s $(unzip -p a.ckpt manifest.json | sha256sum | cut -c-64) |
//	  ssh-keygen -Y verify -f allowed_signers -I NAME -n segno-ckpt -s state_digest.sig
//
// The format is PROTOCOL.sshsig of OpenSSH.

const (
	signatureSpace = "segno-ckpt"
	signatureMagic = "SSHSIG"
	signatureHash  = "sha512"
	signaturePEM   = "SSH SIGNATURE"
)

// signatureBlob is the content of the armor, behind the magic.
type signatureBlob struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  []byte
	Hash      string
	Signature []byte
}

// signedMessage is what the key signs, behind the magic.
type signedMessage struct {
	Namespace string
	Reserved  []byte
	Hash      string
	Digest    []byte
}

func messageOf(digest string) []byte {
	sum := sha512.Sum512([]byte(digest))
	return append([]byte(signatureMagic), ssh.Marshal(signedMessage{signatureSpace, nil, signatureHash, sum[:]})...)
}

// Signer returns a function for WriteOptions.Sign from a private ed25519 key in OpenSSH's
// format. Passphrase may be nil. The error for a key that needs one is an
// ssh.PassphraseMissingError.
func Signer(key, passphrase []byte) (func(digest string) ([]byte, error), error) {
	var signer ssh.Signer
	var err error
	if passphrase == nil {
		signer, err = ssh.ParsePrivateKey(key)
	} else {
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key, passphrase)
	}
	if err != nil {
		return nil, err
	}
	if signer.PublicKey().Type() != ssh.KeyAlgoED25519 {
		return nil, fmt.Errorf("the key is %s and not %s", signer.PublicKey().Type(), ssh.KeyAlgoED25519)
	}
	return func(digest string) ([]byte, error) {
		s, err := signer.Sign(rand.Reader, messageOf(digest))
		if err != nil {
			return nil, err
		}
		blob := ssh.Marshal(signatureBlob{1, signer.PublicKey().Marshal(), signatureSpace, nil, signatureHash, ssh.Marshal(s)})
		return pem.EncodeToMemory(&pem.Block{Type: signaturePEM, Bytes: append([]byte(signatureMagic), blob...)}), nil
	}, nil
}

// Signed reports whether the archive has a signature. It does not verify the signature.
func (r *Reader) Signed() bool { return r.signature != nil }

// SignedBy returns the name of the key that signed the archive in a file of allowed signers. The
// file has the format of ssh-keygen (ALLOWED SIGNERS). The error has KindRefused if there is no
// signature or the key is not in the file, and KindCorrupt if the signature does not belong to
// this state.
func (r *Reader) SignedBy(allowedSigners []byte) (string, error) {
	const op = "verify signature"
	if r.signature == nil {
		return "", segno.Errorf(segno.KindRefused, op, "", "the archive is not signed")
	}
	key, err := r.signingKey()
	if err != nil {
		return "", segno.NewError(segno.KindCorrupt, op, "", err)
	}
	names, err := signerOf(allowedSigners, key)
	if err != nil {
		return "", segno.NewError(segno.KindInvalid, op, "allowed signers", err)
	}
	if names == "" {
		return "", segno.Errorf(segno.KindRefused, op, "", "the key %s is not in the list of allowed signers", ssh.FingerprintSHA256(key))
	}
	return names, nil
}

// signingKey checks the signature and returns the key that made it.
func (r *Reader) signingKey() (ssh.PublicKey, error) {
	block, rest := pem.Decode(r.signature)
	if block == nil || block.Type != signaturePEM || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("the signature is not an SSH signature")
	}
	data, ok := bytes.CutPrefix(block.Bytes, []byte(signatureMagic))
	var blob signatureBlob
	if !ok {
		return nil, errors.New("the signature is not an SSH signature")
	}
	if err := ssh.Unmarshal(data, &blob); err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	if blob.Version != 1 || blob.Namespace != signatureSpace || blob.Hash != signatureHash {
		return nil, errors.New("the signature was made for another purpose")
	}
	key, err := ssh.ParsePublicKey(blob.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("read the signature's key: %w", err)
	}
	var s ssh.Signature
	if err := ssh.Unmarshal(blob.Signature, &s); err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	if key.Type() != ssh.KeyAlgoED25519 {
		return nil, fmt.Errorf("the key is %s and not %s", key.Type(), ssh.KeyAlgoED25519)
	}
	if err := key.Verify(messageOf(r.manifest.Digest), &s); err != nil {
		return nil, errors.New("the signature is not one of this state")
	}
	return key, nil
}

// signerOf returns the names on a key's line in a file of allowed signers, or "". It ignores lines
// with an option other than namespaces, because they do not allow a single key.
func signerOf(file []byte, key ssh.PublicKey) (string, error) {
	for n, line := range strings.Split(string(file), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		names, rest, ok := strings.Cut(line, " ")
		if !ok {
			return "", fmt.Errorf("line %d: no key", n+1)
		}
		listed, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil {
			return "", fmt.Errorf("line %d: %w", n+1, err)
		}
		if bytes.Equal(listed.Marshal(), key.Marshal()) && permits(options) {
			return names, nil
		}
	}
	return "", nil
}

func permits(options []string) bool {
	for _, o := range options {
		spaces, ok := strings.CutPrefix(o, "namespaces=")
		if !ok || !slices.Contains(strings.Split(strings.Trim(spaces, `"`), ","), signatureSpace) {
			return false
		}
	}
	return true
}
