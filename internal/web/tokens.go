package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Tokens is a file with the hashes of tokens, one line each:
//
//	NAME SCOPES SHA-256 TIME
//
// A request reads the file again if it has changed, so a token can be added or removed while the server runs.
type Tokens struct {
	path string

	mu   sync.Mutex
	read fileState // of the file that is in all
	all  []Grant
	text []byte
}

// Grant is one line of the file.
type Grant struct {
	Name    string
	Scopes  Scopes
	Created time.Time // zero if the line has none
	sum     [sha256.Size]byte
}

// fileState tells one content of a file from another.
type fileState struct {
	inode    uint64
	size     int64
	modified time.Time
}

// maxTokens is the size of the largest file of tokens.
const maxTokens = 1 << 20

const opTokens = "read tokens"

// OpenTokens reads the file of tokens at a path.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.refresh()
}

// granted returns what the token with a hash allows, or 0.
func (t *Tokens) granted(sum [sha256.Size]byte) (s Scopes, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refresh(); err != nil {
		return 0, err
	}
	for _, g := range t.all {
		if subtle.ConstantTimeCompare(sum[:], g.sum[:]) == 1 {
			s |= g.Scopes
		}
	}
	return s, nil
}

// refresh reads the file if it has changed. The caller holds the mutex.
func (t *Tokens) refresh() error {
	fi, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return segno.NewError(segno.KindNotFound, opTokens, t.path, nil).WithHint("make the file with 'segno serve token add'")
	}
	if err != nil {
		return segno.NewError(segno.KindIO, opTokens, t.path, err)
	}
	now := fileState{size: fi.Size(), modified: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		now.inode = st.Ino
	}
	if now == t.read && !now.modified.IsZero() {
		return nil
	}
	if !fi.Mode().IsRegular() {
		return segno.Errorf(segno.KindInvalid, opTokens, t.path, "it is not a file")
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return segno.Errorf(segno.KindRefused, opTokens, t.path, "other users can write it").WithHint("run 'chmod 600' on the file")
	}
	f, err := os.Open(t.path)
	if err != nil {
		return segno.NewError(segno.KindIO, opTokens, t.path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTokens+1))
	if err != nil {
		return segno.NewError(segno.KindIO, opTokens, t.path, err)
	}
	all, err := parseTokens(data)
	if err != nil {
		return segno.NewError(segno.KindInvalid, opTokens, t.path, err)
	}
	t.all, t.text, t.read = all, data, now
	return nil
}

// parseTokens parses the content of the file. Empty lines and lines that begin with # have no token.
func parseTokens(data []byte) (all []Grant, err error) {
	if len(data) > maxTokens {
		return nil, fmt.Errorf("larger than %d bytes", maxTokens)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		g, err := parseGrant(strings.Fields(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.ContainsFunc(all, func(x Grant) bool { return x.Name == g.Name }) {
			return nil, fmt.Errorf("line %d: the name %q occurs twice", n, g.Name)
		}
		all = append(all, g)
	}
	return all, lines.Err()
}

func parseGrant(fields []string) (g Grant, err error) {
	if len(fields) != 3 && len(fields) != 4 {
		return g, errors.New("not a name, scopes and a SHA-256")
	}
	g.Name = fields[0]
	if err := checkTokenName(g.Name); err != nil {
		return g, err
	}
	if g.Scopes, err = ParseScopes(fields[1]); err != nil {
		return g, err
	}
	sum, err := hex.DecodeString(fields[2])
	if copy(g.sum[:], sum) != len(g.sum) || len(sum) != len(g.sum) || err != nil {
		return g, errors.New("not a SHA-256 of 64 hexadecimal digits")
	}
	if len(fields) == 4 {
		g.Created, err = time.Parse(time.RFC3339, fields[3])
	}
	return g, err
}

// checkTokenName refuses a name that a line cannot contain.
func checkTokenName(name string) error {
	const maxName = 64
	isOther := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.@", r)
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, isOther) {
		return fmt.Errorf("the name %q is not of letters, digits and -_.@", name)
	}
	return nil
}

// List returns the tokens of the file.
func (t *Tokens) List() []Grant { return slices.Clone(t.all) }

// AddToken adds a new token to the file, which it makes if it does not exist, with its directory, and returns the token. The
// file has only its hash.
func AddToken(ctx context.Context, fsys vfs.FS, path, name string, s Scopes, now time.Time) (token string, err error) {
	const op = "add token"
	if err := vfs.MkdirAll(fsys, filepath.Dir(path)); err != nil {
		return "", segno.NewError(segno.KindIO, op, path, err)
	}
	unlock, err := lockTokens(ctx, fsys, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	t, err := OpenTokens(path)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return "", err
	}
	if err := checkTokenName(name); err != nil {
		return "", segno.NewError(segno.KindInvalid, op, "", err)
	}
	if slices.ContainsFunc(t.all, func(x Grant) bool { return x.Name == name }) {
		return "", segno.Errorf(segno.KindConflict, op, name, "the file has a token of this name").WithHint("remove it first, or use another name")
	}
	token = NewToken()
	text := t.text
	if len(text) == 0 {
		text = []byte("# name, scopes, SHA-256 of the token, time: see 'segno serve token'\n")
	} else if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	text = fmt.Appendf(text, "%s %s %x %s\n", name, s, sha256.Sum256([]byte(token)), now.UTC().Format(time.RFC3339))
	return token, writeTokens(fsys, path, text)
}

// RemoveToken removes the token with a name from the file.
func RemoveToken(ctx context.Context, fsys vfs.FS, path, name string) error {
	unlock, err := lockTokens(ctx, fsys, path)
	if err != nil {
		return err
	}
	defer unlock()
	t, err := OpenTokens(path)
	if err != nil {
		return err
	}
	var rest []byte
	for line := range bytes.Lines(t.text) {
		if fields := strings.Fields(string(line)); len(fields) == 0 || fields[0] != name {
			rest = append(rest, line...)
		}
	}
	if len(rest) == len(t.text) {
		return segno.NewError(segno.KindNotFound, "remove token", name, nil).WithHint("run 'segno serve token list'")
	}
	return writeTokens(fsys, path, rest)
}

// lockTokens excludes other commands that change the file, which each read it and replace it. The lock is on a file beside it,
// because the file itself is replaced.
func lockTokens(ctx context.Context, fsys vfs.FS, path string) (unlock func(), err error) {
	const op, wait = "lock tokens", 10 * time.Second
	f, err := fsys.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, path, err)
	}
	if err = vfs.Lock(ctx, f, wait); err == nil {
		return func() { f.Close() }, nil
	}
	f.Close()
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, segno.NewError(segno.KindBusy, op, path, err).WithHint("try again when the other command has ended")
	case ctx.Err() != nil:
		return nil, segno.NewError(segno.KindCancelled, op, path, err)
	}
	return nil, segno.NewError(segno.KindIO, op, path, err)
}

func writeTokens(fsys vfs.FS, path string, text []byte) error {
	if err := vfs.Replace(fsys, path, text, 0o600); err != nil {
		return segno.NewError(segno.KindIO, "write tokens", path, err)
	}
	return nil
}
