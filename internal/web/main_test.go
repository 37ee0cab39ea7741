package web_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/web"
)

// childStore is the environment variable with which a process serves the store in a directory until it is
// killed.
const childStore, childToken, childTokens = "SEGNO_TEST_WEB_STORE", "SEGNO_TEST_WEB_TOKEN", "SEGNO_TEST_WEB_TOKENS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childStore); dir != "" {
		fmt.Fprintln(os.Stderr, serveChild(dir))
		os.Exit(1)
	}
	soak.DrawIfShort()
	memdir.Use()
	m.Run()
}

// serveChild serves the store of a [moveRig] and prints the address.
func serveChild(dir string) error {
	place := local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"), Now: time.Now}
	store, err := place.Open(context.Background())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c := web.Config{Store: store, Local: store, Kind: "sqlite", Token: os.Getenv(childToken)}
	if file := os.Getenv(childTokens); file != "" {
		if c.Tokens, err = web.OpenTokens(file); err != nil {
			return err
		}
	}
	fmt.Printf("http://%s/api/v1\n", l.Addr())
	return web.New(c, l).Serve(context.Background())
}
