// Package archivefile opens and writes archives as the flags of a verb say. The verbs of archives and those of worlds use it.
package archivefile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
)

// ArchiveFlags are the flags of verbs that read archives.
type ArchiveFlags struct {
	Identity, Signers string
	bases             []string
}

// Add adds the flags to a verb.
func (f *ArchiveFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.Identity, "identity", "", "decrypt with this `KEYFILE`: a key of age, or a private key of SSH")
	c.Flags().StringArrayVar(&f.bases, "base", nil, "of a delta: the `FILE` of the archive that has the rest; repeatable")
	cli.CompleteFlag(c, "base", cli.CompleteArchives(2))
	c.Flags().StringVar(&f.Signers, "signer", "", "check the signature against this `FILE` of allowed signers (see ssh-keygen)")
}

// Given returns the name of one of the flags that the user gave, or "".
func (f *ArchiveFlags) Given() string {
	switch {
	case f.Identity != "":
		return "--identity"
	case len(f.bases) > 0:
		return "--base"
	case f.Signers != "":
		return "--signer"
	}
	return ""
}

// ArchivePath returns the path that an argument names. It refuses anything except a regular file,
// because opening a named pipe would block.
func ArchivePath(a *cli.App, arg string) (string, os.FileInfo, error) {
	dir, err := a.WorkDir()
	if err != nil {
		return "", nil, err
	}
	path := cli.Absolute(dir, arg)
	if name, ok := cli.UnquotePath(arg); ok {
		if _, err := os.Lstat(path); err != nil {
			path = cli.Absolute(dir, name)
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil, segno.NewError(segno.KindNotFound, "open archive", path, nil).WithHint("name an archive that 'segno pack' wrote")
	case err != nil:
		return "", nil, segno.NewError(segno.KindIO, "open archive", path, err)
	case !info.Mode().IsRegular():
		return "", nil, segno.Errorf(segno.KindInvalid, "open archive", path, "it is not a regular file").
			WithHint("name an archive that 'segno pack' wrote; copy what comes from a pipe to a file first")
	}
	return path, info, nil
}

// OpenArchive opens an archive. It decrypts an encrypted one with the identities in a file.
func OpenArchive(a *cli.App, path, identity string) (*archive.Reader, error) {
	sealed, err := archive.IsSealed(path)
	switch {
	case err != nil:
		return nil, err
	case !sealed:
		r, err := archive.Open(path)
		return r, ExplainBadArchive(err)
	case identity == "":
		return nil, segno.Errorf(segno.KindRefused, "open archive", path, "it is encrypted").
			WithHint("name the file of the key with --identity")
	}
	keys, err := identities(a, identity)
	if err != nil {
		return nil, err
	}
	r, err := archive.OpenSealed(path, keys...)
	return r, ExplainBadArchive(err)
}

// Report is the report of a wing whose verbs write or open archives; see [cli.Wing].
func Report(err error) (code int, fields map[string]any) {
	if errors.As(err, new(*archive.UnsafeError)) {
		return cli.ExitUnsafe, nil
	}
	if found := (*archive.CheckpointSecretError)(nil); errors.As(err, &found) {
		return cli.ExitSecret, map[string]any{"findings": found.Findings}
	}
	return secretscan.Report(err)
}

// ExplainBadArchive adds a hint to the error of an archive that cannot be used.
func ExplainBadArchive(err error) error {
	switch {
	case err == nil || segno.HintOf(err) != "":
		return err
	case errors.As(err, new(*archive.UnsafeError)):
		return segno.NewError(segno.KindCorrupt, "", "", err).WithHint("do not use it: it was changed on purpose, or it is damaged")
	case segno.KindOf(err) == segno.KindCorrupt:
		return segno.NewError(segno.KindCorrupt, "", "", err).WithHint("get the archive again from where it was made")
	case segno.KindOf(err) == segno.KindNewer:
		return segno.NewError(segno.KindNewer, "", "", err).WithHint("read it with a newer segno")
	}
	return err
}

// identities reads the secret keys of a file. It asks for the passphrase of an encrypted SSH key.
func identities(a *cli.App, name string) ([]age.Identity, error) {
	text, err := readSmallFile(a, "read identity", name)
	if err != nil {
		return nil, err
	}
	keys, err := archive.ParseIdentities(text)
	if err != nil {
		e := segno.NewError(segno.KindInvalid, "read identity", name, err)
		if errors.As(err, new(*ssh.PassphraseMissingError)) {
			return nil, e.WithHint("use a key without a passphrase, for example one that age-keygen makes")
		}
		return nil, e.WithHint("name a file that age-keygen wrote, or a private key of SSH")
	}
	return keys, nil
}

// maxSmallFile is the size limit for files of keys and of allowed signers.
const maxSmallFile = 1 << 20

// readSmallFile reads a file that the user names on the command line.
func readSmallFile(a *cli.App, op, name string) ([]byte, error) {
	dir, err := a.WorkDir()
	if err != nil {
		return nil, err
	}
	path := cli.Absolute(dir, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, segno.NewError(segno.KindNotFound, op, path, nil).WithHint("name an existing file")
	case err != nil:
		return nil, segno.NewError(segno.KindIO, op, path, err)
	case !info.Mode().IsRegular() || info.Size() > maxSmallFile:
		return nil, segno.Errorf(segno.KindInvalid, op, path, "it is not a regular file of at most %s", cli.Size(maxSmallFile)).
			WithHint("name a file of keys, one a line")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, path, err)
	}
	return data, nil
}

// SignedBy returns the name of the allowed signer that signed an archive, or "" if the user named
// no list of signers.
func SignedBy(a *cli.App, r *archive.Reader, signers string) (string, error) {
	if signers == "" {
		return "", nil
	}
	list, err := readSmallFile(a, "read allowed signers", signers)
	if err != nil {
		return "", err
	}
	name, err := r.SignedBy(list)
	if segno.KindOf(err) == segno.KindInvalid {
		err = segno.NewError(segno.KindInvalid, "", "", err).WithHint("write one 'NAME ssh-ed25519 KEY' a line, as for ssh-keygen")
	}
	return name, err
}

// WroteHere reports whether this installation wrote an archive. If that record is damaged,
// WroteHere prints a note and treats the archive as one from another machine.
func WroteHere(a *cli.App, digest string) (bool, error) {
	place, err := a.OpenPlace()
	if err != nil {
		return false, err
	}
	is, err := place.Archives().Wrote(digest)
	if err != nil {
		a.Notef("segno: %s; archives that it recorded count as those of another machine", cli.Clean(err.Error()))
	}
	return is, nil
}

// passphrase asks on the terminal, without echo. It turns the echo on again, also after a signal.
func passphrase(a *cli.App, ctx context.Context, name string) ([]byte, error) {
	in, ok := cli.FileOf(a.Stdin)
	if !ok || !cli.Terminal(a.Stdin) {
		return nil, segno.Errorf(segno.KindRefused, "read key", name, "it has a passphrase, and there is no terminal to ask for it").
			WithHint("run this on a terminal, or use a key without a passphrase")
	}
	before, err := term.GetState(int(in.Fd()))
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read passphrase", "", err)
	}
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	a.Notef("passphrase of %s:", cli.QuotePath(name))
	go func() { // a read of a terminal cannot be cancelled; the process ends soon after a signal
		text, err := term.ReadPassword(int(in.Fd()))
		answers <- answer{text, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return nil, segno.NewError(segno.KindIO, "read passphrase", "", got.err)
		}
		return got.text, nil
	case <-ctx.Done():
		_ = term.Restore(int(in.Fd()), before) // the error of the context matters more
		return nil, ctx.Err()
	}
}

// signer reads the key in a file and returns a function that signs state digests with it.
func signer(a *cli.App, ctx context.Context, name string) (func(digest string) ([]byte, error), error) {
	key, err := readSmallFile(a, "read key", name)
	if err != nil {
		return nil, err
	}
	sign, err := archive.Signer(key, nil)
	if errors.As(err, new(*ssh.PassphraseMissingError)) {
		var text []byte
		if text, err = passphrase(a, ctx, name); err != nil {
			return nil, err
		}
		sign, err = archive.Signer(key, text)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "read key", name, err).WithHint("make one with 'ssh-keygen -t ed25519'")
	}
	return sign, nil
}

// recipients reads the recipients of an encrypted archive: keys, or files with one key a line.
func recipients(a *cli.App, args []string) (all []age.Recipient, err error) {
	for _, arg := range args {
		lines := []string{arg}
		if !strings.HasPrefix(arg, "age1") && !strings.HasPrefix(arg, "ssh-") {
			text, err := readSmallFile(a, "read recipients", arg)
			if err != nil {
				return nil, err
			}
			lines = strings.Split(string(text), "\n")
		}
		before := len(all)
		for n, line := range lines {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			r, err := archive.ParseRecipient(line)
			if err != nil {
				return nil, segno.Errorf(segno.KindInvalid, "read recipients", arg, "line %d: %w", n+1, err).
					WithHint("give a key that begins with age1, ssh-ed25519 or ssh-rsa")
			}
			all = append(all, r)
		}
		if len(all) == before {
			return nil, segno.Errorf(segno.KindInvalid, "read recipients", arg, "it has no key")
		}
	}
	return all, nil
}

// Sum is a number of files and of their bytes.
type Sum struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// String returns the sum as text: "3 files, 1.2 KiB".
func (s Sum) String() string { return fmt.Sprintf("%s, %s", cli.Files(s.Files), cli.Size(s.Bytes)) }

// Add counts a file of an archive.
func (s *Sum) Add(e archive.Entry) {
	s.Files++
	s.Bytes += e.Size
}

// TotalOf counts the files of an archive.
func TotalOf(m *archive.Manifest) (s Sum) {
	for _, e := range m.Entries {
		s.Add(e)
	}
	return s
}

// Omissions describes omissions. It groups those with the same reason and directory.
func Omissions(list []archive.Omission) (lines []string) {
	for _, o := range list {
		line := cli.Inline(o.Path) + "  " + cli.Inline(o.Why)
		switch {
		case o.Files > 0:
			line += "  " + Sum{o.Files, o.Bytes}.String()
		case o.Bytes > 0:
			line += "  " + cli.Size(o.Bytes)
		}
		lines = append(lines, line)
	}
	return lines
}
