package httpworld

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dalsegno/segno"
)

// Serve is the main function of a world in Go that [Start] runs: it loads the document at WORLD_RESUME_PATH
// into w, which must be new, and serves w until ctx ends.
func Serve(ctx context.Context, w segno.World, getenv func(string) string) error {
	if path := getenv("WORLD_RESUME_PATH"); path != "" {
		document, err := os.ReadFile(path)
		if err != nil {
			return segno.NewError(segno.KindIO, "resume world", path, err)
		}
		if err := w.Load(ctx, document); err != nil {
			return err
		}
	}
	token := getenv("WORLD_OPERATOR_TOKEN")
	if token == "" {
		return segno.Errorf(segno.KindInvalid, "serve world", w.Info().Name, "WORLD_OPERATOR_TOKEN is not set")
	}
	address := net.JoinHostPort(getenv("WORLD_HOST"), getenv("WORLD_PORT"))
	if !isLoopback(address) {
		return segno.Errorf(segno.KindRefused, "serve world", address, "WORLD_HOST is not a loopback address").WithHint("set it to 127.0.0.1")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return segno.NewError(segno.KindIO, "serve world", w.Info().Name, err)
	}
	server := &http.Server{Handler: NewHandler(w, token), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return segno.NewError(segno.KindIO, "serve world", w.Info().Name, err)
	}
	return ctx.Err()
}
