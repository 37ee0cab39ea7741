package fleetcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/web"
)

// connectFlags name a fleet: the server of its API, or its database and its bucket.
type connectFlags struct{ remote, tokenFile, tenant string }

// databaseFlags adds the flags of a verb that uses the database.
func (a *app) databaseFlags(c *cobra.Command, f *connectFlags) {
	a.BucketFlag(c)
	c.Flags().StringVar(&f.tenant, "tenant", "", "the `TENANT` whose threads these are")
}

// connectFlags adds the flags of a verb that also works through the API.
func (a *app) connectFlags(c *cobra.Command, f *connectFlags) {
	a.databaseFlags(c, f)
	c.Flags().StringVar(&f.remote, "remote", "", "the `URL` of 'segno serve', instead of --store and --bucket")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the token of --remote (default: $SEGNO_TOKEN, or the part of the URL after #)")
}

// connection is an open fleet.
type connection struct {
	web.Fleet
	store segno.Store // its threads, to wait for changes
	close func() error
}

// useEnvironment fills in the database and the bucket from the environment. A password in the arguments of a process is visible to
// other users of the machine.
func (a *app) useEnvironment() {
	if a.StorePath == "" {
		a.StorePath = a.Getenv("SEGNO_FLEET")
		a.BucketURL = cmp.Or(a.BucketURL, a.Getenv("SEGNO_BUCKET"))
	}
}

// connect opens the fleet that the flags name.
func (a *app) connect(ctx context.Context, f *connectFlags) (*connection, error) {
	if f.remote == "" && a.StorePath == "" {
		f.remote = a.Getenv("SEGNO_REMOTE")
	}
	if f.remote == "" {
		a.useEnvironment()
	}
	_, isURL := cli.URLScheme(a.StorePath)
	switch {
	case f.remote != "" && (a.StorePath != "" || a.BucketURL != "" || f.tenant != ""):
		return nil, cli.Usage(errors.New("--remote excludes --store, --bucket and --tenant: the server has them"))
	case f.remote != "":
		return a.connectRemote(f)
	case !isURL:
		return nil, cli.Usage(errors.New("name the fleet with --remote URL or --store postgres://…, or in SEGNO_REMOTE or SEGNO_FLEET"))
	}
	open, err := openFleet(ctx, a.StorePath, a.BucketURL, f.tenant, nil)
	if err != nil {
		return nil, err
	}
	return &connection{Fleet: API(open.Fleet), store: open.Store(), close: open.close}, nil
}

func (a *app) connectRemote(f *connectFlags) (*connection, error) {
	u, err := url.Parse(f.remote)
	if err != nil || u.Host == "" {
		return nil, cli.Usage(errors.New("--remote takes an address like https://segno.example.com"))
	}
	token := cmp.Or(u.Fragment, a.Getenv("SEGNO_TOKEN"))
	if f.tokenFile != "" {
		if token, err = readToken(f.tokenFile); err != nil {
			return nil, err
		}
	}
	if token == "" {
		return nil, segno.Errorf(segno.KindInvalid, "connect", cli.RedactURL(f.remote), "there is no token for it").
			WithHint("set SEGNO_TOKEN, or give --token-file")
	}
	s, err := client.New(f.remote, token)
	if err != nil {
		return nil, err
	}
	return &connection{Fleet: s, store: s, close: s.Close}, nil
}

// readToken returns the token in a file.
func readToken(path string) (string, error) {
	const op = "read token"
	file, err := os.Open(path)
	if err != nil {
		kind := segno.KindIO
		if os.IsNotExist(err) {
			kind = segno.KindNotFound
		}
		return "", segno.NewError(kind, op, path, plainPathError(err))
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil {
		return "", segno.NewError(segno.KindIO, op, path, plainPathError(err))
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", segno.Errorf(segno.KindInvalid, op, path, "the file is empty").WithHint("give the file that 'segno serve --token-file' made")
	}
	return token, nil
}
