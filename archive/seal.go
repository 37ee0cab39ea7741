package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/agekey"
	"github.com/dalsegno/segno/internal/vfs"
)

// An encrypted archive is an archive inside an age file, format age-encryption.org/v1. A reader can
// decrypt any part without decrypting the parts before it.

const ageMagic = "age-encryption.org/v1\n"

// IsSealed reports whether a file is encrypted.
func IsSealed(path string) (bool, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return false, openError(path, err)
	}
	defer f.Close()
	head := make([]byte, len(ageMagic))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, segno.NewError(segno.KindIO, "read archive", path, err)
	}
	return string(head[:n]) == ageMagic, nil
}

// ParseRecipient reads an age recipient (age1…) or a public key of SSH (ssh-ed25519 …,
// ssh-rsa …).
func ParseRecipient(text string) (age.Recipient, error) { return agekey.ParseRecipient(text) }

// ParseIdentities reads the secret keys of an age key file, or a private key of SSH without
// a passphrase.
func ParseIdentities(file []byte) ([]age.Identity, error) { return agekey.ParseIdentities(file) }

// OpenSealed opens an encrypted archive. The error has KindRefused if none of the identities
// can decrypt it.
func OpenSealed(path string, identities ...age.Identity) (*Reader, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, openError(path, err)
	}
	r, err := openSealed(f, info.Size(), identities)
	if err != nil {
		f.Close()
		var no *age.NoIdentityMatchError
		if errors.As(err, &no) {
			return nil, segno.Errorf(segno.KindRefused, "open archive", path, "it is encrypted for another key").
				WithHint("name the file of the key with --identity")
		}
		return nil, openError(path, err)
	}
	r.closer = f
	return r, nil
}

func openSealed(f *os.File, length int64, identities []age.Identity) (*Reader, error) {
	plain, size, err := age.DecryptReaderAt(f, length, identities...)
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return NewReader(plain, size)
}

// sealed calls write with a writer that encrypts to w, or with w itself if there are no
// recipients.
func sealed(w io.Writer, recipients []age.Recipient, write func(io.Writer) error) error {
	if len(recipients) == 0 {
		return write(w)
	}
	e, err := age.Encrypt(w, recipients...)
	if err != nil {
		return err
	}
	if err := write(e); err != nil {
		return err
	}
	return e.Close()
}

// writeBody writes a temporary file and returns its content for reading. If secret is set, it encrypts
// the file with a key that exists only in memory.
func writeBody(temp vfs.File, secret bool, write func(io.Writer) error) (io.ReaderAt, error) {
	if !secret {
		w := bufio.NewWriterSize(temp, 1<<20)
		if err := write(w); err != nil {
			return nil, err
		}
		return temp, w.Flush()
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	if err := sealed(temp, []age.Recipient{key.Recipient()}, write); err != nil {
		return nil, err
	}
	info, err := temp.Stat()
	if err != nil {
		return nil, err
	}
	plain, _, err := age.DecryptReaderAt(temp, info.Size(), key)
	return plain, err
}
