package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
)

// CheckOwner returns an error with [segno.KindRefused] if another user controls the store: the
// directory, or a symlink in its path, belongs to that user. The store need not exist.
func CheckOwner(store string) error {
	refuse := func(what, name string, uid uint32) error {
		return segno.Errorf(segno.KindRefused, "open store", store, "the %s %s belongs to another user (uid %d)", what, name, uid).
			WithHint("run segno as that user, or use --store PATH")
	}
	own := uint32(os.Geteuid())
	at, rest := "/", strings.TrimPrefix(filepath.Clean(store), "/")
	const most = 40 // as the kernel follows
	for links := 0; rest != ""; {
		name, more, _ := strings.Cut(rest, "/")
		next := filepath.Join(at, name)
		fi, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return segno.NewError(segno.KindIO, "open store", store, err)
		}
		uid := fi.Sys().(*syscall.Stat_t).Uid
		if fi.Mode()&fs.ModeSymlink == 0 {
			if at, rest = next, more; rest == "" && uid != own {
				return refuse("directory", next, uid)
			}
			continue
		}
		if uid != own && uid != 0 {
			return refuse("symlink", next, uid)
		}
		target, err := os.Readlink(next)
		if links++; err != nil || links > most {
			return segno.Errorf(segno.KindIO, "open store", store, "follow the symlink %s: %w", next, errors.Join(err, syscall.ELOOP))
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = strings.TrimPrefix(filepath.Clean(target)+"/"+more, "/")
		rest = strings.TrimSuffix(rest, "/")
	}
	return nil
}
