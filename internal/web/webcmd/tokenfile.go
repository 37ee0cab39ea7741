package webcmd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
)

// minToken is the minimum length of a token in a file. The user may have written the file.
const minToken = 32

// tokenIn returns the token in a file. If the file is missing, it creates the file with a new
// token.
func tokenIn(fsys vfs.FS, path string) (string, error) {
	const op = "read token"
	data, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		token := web.NewToken()
		err = vfs.Replace(fsys, path, []byte(token+"\n"), 0o600)
		if err != nil {
			return "", segno.NewError(segno.KindIO, "write token", path, err)
		}
		return token, nil
	}
	if err != nil && segno.KindOf(err) != segno.KindInternal {
		return "", err
	}
	if err != nil {
		return "", segno.NewError(segno.KindIO, op, path, err)
	}
	token := strings.TrimSpace(data)
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", segno.Errorf(segno.KindInvalid, op, path, "the file is not a token of at least %d characters", minToken).
			WithHint("remove the file, and the command makes one")
	}
	return token, nil
}

// readToken returns the content of a token file. It refuses a file that other users can read.
func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", segno.Errorf(segno.KindInvalid, "read token", path, "it is not a file")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return "", segno.Errorf(segno.KindRefused, "read token", path, "other users can read it").WithHint("run 'chmod 600' on the file")
	}
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	return string(data), err
}
