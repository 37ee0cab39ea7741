package cli

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
)

func (a *app) web() *cobra.Command {
	var port int
	var noOpen bool
	c := &cobra.Command{
		Use: "web", Short: "open the timeline in the browser", Args: cobra.NoArgs,
		Long: `Serves a page with the threads, the timeline and the differences of this store to this
machine, and opens it in the browser. The page can undo, redo, restore, fork and pin.

The address contains a token. Who has the address can read and change the store until the
command ends, so do not share it. End the command with ctrl+c.`,
		Example: "  segno web\n  segno web --no-open --port 7777",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.runWeb(c.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), !noOpen)
		},
	}
	c.Flags().IntVar(&port, "port", 0, "the `PORT` to use (default: a free one)")
	c.Flags().BoolVar(&noOpen, "no-open", false, "print the address and open no browser")
	return c
}

// webItem is the result of web and serve.
type webItem struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

func (a *app) runWeb(ctx context.Context, address string, open bool) error {
	store, err := a.openAnyStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return segno.NewError(segno.KindIO, "listen", address, err).WithHint("use another port, or none to get a free one")
	}
	defer listener.Close()
	dir, err := a.workDir()
	if err != nil {
		return err
	}
	config := web.Config{Store: store.Store, Local: store.local, Kind: store.kind, Name: store.name, Version: a.buildVersion(), Dir: dir, Token: web.NewToken()}
	server := web.New(config, listener)
	item := webItem{URL: "http://" + listener.Addr().String() + "/#" + config.Token, Token: config.Token}
	if err := a.print(item, func(p *printer) { p.linef("%s", item.URL) }); err != nil {
		return err
	}
	if open {
		if err := a.openBrowser(ctx, item.URL); err != nil {
			a.notef("no browser was opened (%s); open the address above", clean(err.Error()))
		}
	}
	return server.Serve(ctx)
}

// openBrowser starts the user's browser.
func (a *app) openBrowser(ctx context.Context, url string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if a.Getenv("DISPLAY") == "" && a.Getenv("WAYLAND_DISPLAY") == "" {
		return fmt.Errorf("there is no display")
	}
	return exec.CommandContext(ctx, name, url).Run()
}
