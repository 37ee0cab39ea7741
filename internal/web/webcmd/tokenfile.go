package webcmd

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
)

// minToken is the minimum length of a token in a file. The user may have written the file.
const minToken = 32

// tokenIn returns the token in a file. If the file is missing, it creates the file with a new
// token, and the directory of the file.
func tokenIn(fsys vfs.FS, path string) (string, error) {
	const op = "read token"
	token, err := cli.ReadTokenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		token = web.NewToken()
		if err = vfs.MkdirAll(fsys, filepath.Dir(path)); err == nil {
			err = vfs.Replace(fsys, path, []byte(token+"\n"), 0o600)
		}
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
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", segno.Errorf(segno.KindInvalid, op, path, "the file is not a token of at least %d characters", minToken).
			WithHint("remove the file, and the command makes one")
	}
	return token, nil
}
