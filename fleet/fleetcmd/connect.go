package fleetcmd

import (
	"cmp"
	"context"
	"errors"
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
	c.Flags().StringVar(&f.tenant, "tenant", "", "use the threads of `TENANT` only")
}

// connectFlags adds the flags of a verb that also works through the API.
func (a *app) connectFlags(c *cobra.Command, f *connectFlags) {
	a.databaseFlags(c, f)
	c.Flags().StringVar(&f.remote, "remote", "", "the `URL` of 'segno serve', instead of --store and --bucket")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the token of --remote (default: $SEGNO_TOKEN)")
}

// connection is an open fleet.
type connection struct {
	web.Fleet
	store segno.Store // its threads, to wait for changes
	close func() error
}

// useEnvironment fills in the database and the bucket from the environment, each if no flag names it. A password in the arguments of
// a process is visible to other users of the machine.
func (a *app) useEnvironment() {
	a.StorePath = cmp.Or(a.StorePath, a.Getenv("SEGNO_FLEET"))
	a.BucketURL = cmp.Or(a.BucketURL, a.Getenv("SEGNO_BUCKET"))
}

// connect opens the fleet that the flags name. If it must exist, a database without one stays as it is.
func (a *app) connect(ctx context.Context, f *connectFlags, mustExist bool) (*connection, error) {
	isRemote := f.remote != "" || a.StorePath == "" && a.Getenv("SEGNO_REMOTE") != ""
	if !isRemote {
		a.useEnvironment()
	}
	_, isURL := cli.URLScheme(a.StorePath)
	switch {
	case isRemote && (a.StorePath != "" || a.BucketURL != "" || f.tenant != ""):
		return nil, cli.Usage(errors.New("--remote excludes --store, --bucket and --tenant: the server has them"))
	case isRemote:
		return a.connectRemote(f)
	case !isURL:
		return nil, cli.Usage(errors.New("name the fleet with --remote URL or --store postgres://…, or in SEGNO_REMOTE or SEGNO_FLEET"))
	}
	if mustExist {
		if exists, err := hasFleet(ctx, a.StorePath); err == nil && !exists { // openFleet reports an error of the connection
			return nil, segno.Errorf(segno.KindNotFound, "open fleet", cli.RedactURL(a.StorePath), "the database contains no fleet").
				WithHint("check the name of the database; 'segno worker' makes a fleet")
		}
	}
	open, err := openFleet(ctx, a.StorePath, a.BucketURL, f.tenant, nil)
	if err != nil {
		return nil, err
	}
	return &connection{Fleet: API(open.Fleet), store: open.Store(), close: open.close}, nil
}

// connectRemote connects to the server of --remote, or to that in the environment, whose address may contain the token.
func (a *app) connectRemote(f *connectFlags) (*connection, error) {
	address, token := f.remote, ""
	var err error
	if address == "" {
		address, token, _ = strings.Cut(a.Getenv("SEGNO_REMOTE"), "#")
	}
	if token == "" || f.tokenFile != "" {
		token, err = a.RemoteToken(address, f.tokenFile)
	}
	if err != nil {
		return nil, err
	}
	s, err := client.New(address, token)
	if err != nil {
		return nil, err
	}
	return &connection{Fleet: s, store: s, close: s.Close}, nil
}
