package cli

import (
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
)

// ReadTokenFile returns the content of a file with a token, without the white space around it. It refuses a file that other users can read. If the
// file does not exist, the error is that of [os.OpenFile].
func ReadTokenFile(path string) (string, error) {
	const op = "read token"
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
		return "", segno.Errorf(segno.KindInvalid, op, path, "it is not a file")
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return "", segno.Errorf(segno.KindRefused, op, path, "other users can read it").WithHint("run 'chmod 600' on the file")
	}
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(data)), err
}
