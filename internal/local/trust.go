package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// trustFile returns the file that lists the directories of other users that this user accepted.
// Each line has the user id of the owner and the path as a quoted string.
func (p Place) trustFile() string { return filepath.Join(p.Store, "trusted") }

// isTrusted reports whether segno may record a directory that the user uid owns. Under sudo, as in
// git, this includes the directories of the user that ran sudo.
func (p Place) isTrusted(root string, uid uint32) bool {
	if os.Geteuid() == 0 && p.SudoUID != "" && p.SudoUID == strconv.FormatUint(uint64(uid), 10) {
		return true
	}
	text, err := os.ReadFile(p.trustFile())
	if err != nil {
		return false
	}
	want := trustLine(root, uid)
	for line := range strings.Lines(string(text)) {
		if line == want {
			return true
		}
	}
	return false
}

func trustLine(root string, uid uint32) string {
	return fmt.Sprintf("%d %s\n", uid, strconv.QuoteToASCII(root))
}

// Trust allows recording a directory that another user owns. refused is the error that
// [Store.Register] or [Store.Timeline] returned for it. Trust returns the directory, or "" if
// refused has another cause. If the owner of the directory changes later, segno refuses it again.
func (p Place) Trust(ctx context.Context, refused error) (string, error) {
	var foreign *workspace.ForeignError
	if !errors.As(refused, &foreign) {
		return "", nil
	}
	unlock, err := p.Spool().Lock(ctx, "trusted")
	if err != nil {
		return "", err
	}
	defer unlock()
	text, err := os.ReadFile(p.trustFile())
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		text = append(text, trustLine(foreign.Root, foreign.UID)...)
		err = vfs.Replace(p.fs(), p.trustFile(), text, 0o600)
	}
	if err != nil {
		return "", segno.NewError(segno.KindIO, "trust directory", foreign.Root, err)
	}
	return foreign.Root, nil
}

// isUntrusted reports whether a thread brought a list of sidecars from another machine, and the user has not trusted it.
func (s *Store) isUntrusted(ctx context.Context, sidecars segno.Hash) (bool, error) {
	all, err := s.Spool().Untrusted(ctx)
	return slices.ContainsFunc(all, func(u timeline.Untrusted) bool { return slices.Contains(u.Sidecars, sidecars) }), err
}
