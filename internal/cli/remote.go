package cli

import (
	"errors"
	"io/fs"
	"net/url"

	"github.com/dalsegno/segno"
)

// tokenVariable is the environment variable with the token of a server.
const tokenVariable = "SEGNO_TOKEN"

// RemoteToken returns the token for the server at the address of a flag: that in a file if there is one, else that in the
// environment. It refuses an address with a token or a password, because other users can see the arguments of a process.
func (a *App) RemoteToken(address, file string) (token string, err error) {
	const op = "open remote"
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", Usage(errors.New("--remote takes an address like https://segno.example.com"))
	}
	if u.Fragment != "" || u.User != nil || u.RawQuery != "" {
		return "", segno.Errorf(segno.KindRefused, op, u.Scheme+"://"+u.Host, "the address contains a token or a password, which other users can see").
			WithHint("put the token into $" + tokenVariable + " or a file, and give the address without it")
	}
	token = a.Getenv(tokenVariable)
	if file != "" {
		wd, err := a.Getwd()
		if err != nil {
			return "", segno.NewError(segno.KindIO, op, "", err)
		}
		path := Absolute(wd, file)
		if token, err = ReadTokenFile(path); errors.Is(err, fs.ErrNotExist) {
			return "", segno.NewError(segno.KindNotFound, "read token", path, nil)
		} else if err != nil {
			return "", err
		}
	}
	if token == "" {
		return "", segno.Errorf(segno.KindRefused, op, address, "no token").
			WithHint("put the token into $" + tokenVariable + ", or use --token-file")
	}
	return token, nil
}
