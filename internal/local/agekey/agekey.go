// Package agekey reads key files: age identities, and SSH private keys without a passphrase.
package agekey

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
)

// ParseRecipient parses an age recipient (age1…) or an SSH public key (ssh-ed25519 …, ssh-rsa …).
func ParseRecipient(text string) (age.Recipient, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "ssh-") {
		return agessh.ParseRecipient(text)
	}
	list, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, errors.New("it is not one recipient")
	}
	return list[0], nil
}

// ParseIdentities parses the secret keys of an age key file, or an SSH private key without a
// passphrase.
func ParseIdentities(file []byte) ([]age.Identity, error) {
	if bytes.Contains(file, []byte("-----BEGIN")) {
		id, err := agessh.ParseIdentity(file)
		return []age.Identity{id}, err
	}
	return age.ParseIdentities(bytes.NewReader(file))
}

// Recipients returns the public keys of identities from ParseIdentities.
func Recipients(identities []age.Identity) (all []age.Recipient, err error) {
	for _, id := range identities {
		switch id := id.(type) {
		case *age.X25519Identity:
			all = append(all, id.Recipient())
		case *age.HybridIdentity:
			all = append(all, id.Recipient())
		case *agessh.Ed25519Identity:
			all = append(all, id.Recipient())
		case *agessh.RSAIdentity:
			all = append(all, id.Recipient())
		default:
			return nil, fmt.Errorf("unsupported kind of key %T", id)
		}
	}
	return all, nil
}
