package webcmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
)

// serveToken is the noun of the tokens of servers.
func (a *app) serveToken() *cobra.Command {
	return cli.Noun("token", "the tokens of a server, and what each allows",
		`Manages a file with tokens for 'segno serve --tokens FILE'. The file has one line for each token:
its name, its scopes, its SHA-256 and a time. The token itself is printed once, when it is
made, and stored nowhere. A running server follows the file.

Scopes:
  read    read threads, files, searches, everything
  decide  answer the questions of agents
  move    undo, redo, restore, fork, pin, rename and delete; includes decide
  send    send prompts and signals to the threads of a fleet, retry and cancel prompts
  write   store threads from elsewhere: 'segno push' needs read and write`,
		a.addToken(), a.listTokens(), a.removeToken())
}

// tokensFlag adds the flag with the file, and returns the function that returns its absolute path.
func (a *app) tokensFlag(c *cobra.Command) func() (string, error) {
	var path string
	c.Flags().StringVar(&path, "tokens", "", "the `FILE` of the tokens")
	return func() (string, error) {
		if path == "" {
			return "", cli.Usage(errors.New("name the file with --tokens FILE"))
		}
		wd, err := a.Getwd()
		if err != nil {
			return "", segno.NewError(segno.KindIO, "find directory", "", err)
		}
		return cli.Absolute(wd, path), nil
	}
}

// tokenItem is a token in a result. Token is only set for a new one.
type tokenItem struct {
	Name    string     `json:"name"`
	Scopes  string     `json:"scopes"`
	Created *time.Time `json:"created,omitempty"`
	Token   string     `json:"token,omitempty"`
}

func (a *app) addToken() *cobra.Command {
	var scopes string
	c := &cobra.Command{
		Use: "add NAME --tokens FILE --scope SCOPES", Short: "make a token, and print it once", Args: cobra.ExactArgs(1),
		Long: `Makes a token, adds its hash to the file, and prints the token on standard output. The file
is made if it does not exist.`,
		Example: "  (umask 077; segno serve token add laptop --tokens tokens --scope read,write > laptop.token)",
	}
	file := a.tokensFlag(c)
	c.Flags().StringVar(&scopes, "scope", "", "what it allows: some of read,decide,move,send,write")
	c.RunE = func(_ *cobra.Command, args []string) error {
		path, err := file()
		if err != nil {
			return err
		}
		if scopes == "" {
			return cli.Usage(errors.New("say what the token allows with --scope read,write"))
		}
		s, err := web.ParseScopes(scopes)
		if err != nil {
			return err
		}
		token, err := web.AddToken(c.Context(), vfs.OS, path, args[0], s, time.Now())
		if err != nil {
			return err
		}
		return a.Print(tokenItem{Name: args[0], Scopes: s.String(), Token: token}, func(p *cli.Printer) { p.Linef("%s", token) })
	}
	return c
}

func (a *app) listTokens() *cobra.Command {
	c := &cobra.Command{Use: "list --tokens FILE", Short: "list the tokens of a file", Args: cobra.NoArgs, Example: "  segno serve token list --tokens tokens"}
	file := a.tokensFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		path, err := file()
		if err != nil {
			return err
		}
		tokens, err := web.OpenTokens(path)
		if err != nil {
			return err
		}
		items := []tokenItem{}
		for _, g := range tokens.List() {
			i := tokenItem{Name: g.Name, Scopes: g.Scopes.String()}
			if !g.Created.IsZero() {
				i.Created = &g.Created
			}
			items = append(items, i)
		}
		return a.Print(items, func(p *cli.Printer) {
			for _, i := range items {
				p.Linef("%-20s %s", i.Name, i.Scopes)
			}
		})
	}
	return c
}

func (a *app) removeToken() *cobra.Command {
	c := &cobra.Command{Use: "remove NAME --tokens FILE", Short: "end a token", Args: cobra.ExactArgs(1), Example: "  segno serve token remove laptop --tokens tokens"}
	file := a.tokensFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		path, err := file()
		if err != nil {
			return err
		}
		if err := web.RemoveToken(c.Context(), vfs.OS, path, args[0]); err != nil {
			return err
		}
		return a.Print(tokenItem{Name: args[0]}, func(p *cli.Printer) { p.Linef("removed %s", args[0]) })
	}
	return c
}
