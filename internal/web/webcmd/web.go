package webcmd

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/demo"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/transfer/arrivals"
)

type webFlags struct {
	listen    string
	public    *url.URL
	tokenFile string
	tokens    string // the file with further tokens and their scopes, or ""
	runs      string // the directory of the experiments' runs
	open      bool   // start a browser
}

func (a *app) web() *cobra.Command {
	var f webFlags
	var port int
	var noOpen bool
	c := &cobra.Command{
		Use: "web", Short: "open the timeline in the browser", Args: cobra.NoArgs,
		Long: `Serves a page with the threads, the timelines and the differences of the store, and opens
it in the browser. On the page you can undo, redo, restore, fork and pin: each move is
previewed first. --store can name any store, also by URL. The page also shows the experiments of
'segno generations' whose runs are in the directory runs, or in that of --out.

The printed address contains a token that ends with the command. Everybody with the address can
read and change the store, so do not share it. End the command with ctrl+c.`,
		Example: "  segno web\n  segno web --no-open --port 7777\n  segno web --store postgres://localhost/segno",
		RunE: func(c *cobra.Command, _ []string) error {
			f.listen, f.open = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), !noOpen
			return a.runWeb(c.Context(), f)
		},
	}
	a.BucketFlag(c)
	c.Flags().IntVar(&port, "port", 0, "the `PORT` to use (default: a free one)")
	c.Flags().BoolVar(&noOpen, "no-open", false, "print the address and open no browser")
	cli.OutFlag(c, &f.runs)
	return c
}

func (a *app) serve() *cobra.Command {
	var f webFlags
	var public string
	c := &cobra.Command{
		Use: "serve", Short: "serve the timeline and its API to other clients", Args: cobra.NoArgs,
		Long: `Serves the page and the HTTP API of 'segno web' at a fixed address, for a proxy or a
forwarded port in front of it and for other clients. The API is described by
/api/v1/openapi.json.

--public-url is the address at which users open it: requests with another address are
refused. --token-file keeps the token: the file is made with a new token if it does not
exist, and a new token is valid when the command starts again. Without it the token ends
with the command.

--tokens names a file with further tokens that have scopes, and allows 'segno push' with those
that have the scope write: see 'segno serve token'.

An address that other machines can reach needs --public-url, and --token-file or --tokens.
segno itself speaks plain HTTP, so put a proxy with TLS in front of it.

--store can name any store, also by URL. A store in PostgreSQL may have a bucket with its
large objects, which --bucket names: s3://BUCKET/PREFIX with the parameters endpoint, region
and profile, or file:///DIR. Keys are never in the URL: they are in AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or in a profile of ~/.aws/credentials.`,
		Example: "  segno serve --listen 127.0.0.1:7777\n  segno serve --listen 127.0.0.1:7777 --public-url https://segno.example.com --token-file ~/.config/segno-token\n" +
			"  segno serve --store postgres://db.example.com/agents --bucket s3://agents?region=eu-central-1",
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if public != "" {
				if f.public, err = parsePublicURL(public); err != nil {
					return err
				}
			}
			if err := f.checkListen(c.Context()); err != nil {
				return err
			}
			return a.runWeb(c.Context(), f)
		},
	}
	a.BucketFlag(c)
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7777", "the `ADDRESS` to listen on")
	c.Flags().StringVar(&public, "public-url", "", "the `URL` at which users open it")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the token")
	c.Flags().StringVar(&f.tokens, "tokens", "", "a `FILE` with the hashes of further tokens and their scopes")
	c.AddCommand(a.serveToken())
	cli.OutFlag(c, &f.runs)
	return c
}

// parsePublicURL reads the value of --public-url: a scheme and a host.
func parsePublicURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	isBare := err == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == "" && u.User == nil
	if !isBare || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, cli.Usage(errors.New("--public-url takes an address like https://segno.example.com, without a path"))
	}
	return u, nil
}

// checkListen refuses an address that other machines can reach, unless the flags for that are given.
func (f *webFlags) checkListen(ctx context.Context) error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return cli.Usage(errors.New("--listen takes an address like 127.0.0.1:7777"))
	}
	if f.public != nil && (f.tokenFile != "" || f.tokens != "") || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return segno.Errorf(segno.KindRefused, "listen", f.listen, "other machines can reach this address").
		WithHint("give --public-url and --token-file or --tokens, or listen on 127.0.0.1")
}

// mailboxes is a store whose threads workers run.
type mailboxes interface{ Mailboxes() web.Fleet }

// webItem is the result of web and serve. Token is "" if it is in a file.
type webItem struct {
	URL       string `json:"url"` // with the token
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
}

func (a *app) runWeb(ctx context.Context, f webFlags) error {
	store, err := a.openAnyStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	config := web.Config{Store: store.Store, Local: store.Local, Kind: store.Kind, Name: store.Name, Version: a.BuildVersion(), Public: f.public}
	if config.Dir, err = a.WorkDir(); err != nil {
		return err
	}
	if config.Share, err = a.shareTurn(store); err != nil {
		return err
	}
	if fleet, ok := store.Store.(mailboxes); ok {
		config.Fleet = fleet.Mailboxes()
	}
	if store.Local != nil {
		config.Arriving = arrivals.NewRecorder(store.Local).Record
		config.Demo = func(ctx context.Context) (segno.ThreadID, error) { return demo.Make(ctx, store.Local, a.Environ()) }
	}
	config.Runs = cli.Absolute(config.Dir, f.runs)
	item := webItem{}
	if f.tokenFile == "" {
		config.Token = web.NewToken()
		item.Token = config.Token
	} else {
		item.TokenFile = cli.Absolute(config.Dir, f.tokenFile)
		if config.Token, err = tokenIn(vfs.OS, item.TokenFile); err != nil {
			return err
		}
	}
	if f.tokens != "" {
		if config.Tokens, err = web.OpenTokens(cli.Absolute(config.Dir, f.tokens)); err != nil {
			return err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return errListen(f.listen, err)
	}
	defer listener.Close()
	server := web.New(config, listener)
	item.URL = server.URL() + "/"
	if f.public != nil {
		item.URL = f.public.Scheme + "://" + f.public.Host + "/"
	}
	if item.Token != "" {
		item.URL += "#" + item.Token
	}
	if err := a.Print(item, func(p *cli.Printer) { writeWeb(p, item) }); err != nil {
		return err
	}
	if f.open {
		a.openBrowser(ctx, server.LaunchURL())
	}
	return server.Serve(ctx)
}

func writeWeb(p *cli.Printer, item webItem) {
	if item.TokenFile == "" {
		p.Linef("%s", item.URL)
		return
	}
	p.Linef("%s#TOKEN", item.URL)
	p.Linef("the token is in %s", cli.QuotePath(item.TokenFile))
}

// errListen describes why a server cannot listen on an address.
func errListen(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return segno.Errorf(segno.KindIO, "listen", address, "the port is in use").WithHint("use another port")
	}
	return segno.NewError(segno.KindIO, "listen", address, err).WithHint("use another address")
}

// openBrowser starts the user's browser, which outlives the command. If that fails, a note asks the user to open the
// address, which the command has already printed.
func (a *app) openBrowser(ctx context.Context, address string) {
	name := "xdg-open"
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case a.Getenv("DISPLAY") == "" && a.Getenv("WAYLAND_DISPLAY") == "" && a.Getenv("BROWSER") == "":
		a.Notef("there is no display for a browser; open the address yourself")
		return
	}
	c := exec.CommandContext(context.WithoutCancel(ctx), name, address)
	c.Env = a.Environ()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ctrl+c ends the command only
	err := c.Start()
	if err != nil {
		a.Notef("no browser was opened: %s; open the address yourself", cli.Clean(err.Error()))
		return
	}
	go func() {
		if err := c.Wait(); err != nil && ctx.Err() == nil {
			a.Notef("no browser was opened: %s; open the address yourself", cli.Clean(err.Error()))
		}
	}()
}
