// Package wings has the wings of the whole command for tests of the main module. The command itself lists them in cmd/segno/wings.go.
package wings

import (
	"github.com/dalsegno/segno/insight/insightcmd"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/chat/chatcmd"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/historycmd"
	"github.com/dalsegno/segno/internal/hook/hookcmd"
	"github.com/dalsegno/segno/internal/pack/packcmd"
	"github.com/dalsegno/segno/internal/proxy/proxycmd"
	"github.com/dalsegno/segno/internal/sessions"
	"github.com/dalsegno/segno/internal/web/webcmd"
	"github.com/dalsegno/segno/internal/worlds/worldscmd"
	"github.com/dalsegno/segno/search/searchcmd"
	"github.com/dalsegno/segno/transfer/transfercmd"
)

// All returns the wings that cmd/segno lists, with the offline model alone.
func All() []cli.Wing { return With(nil) }

// With returns the wings that cmd/segno lists, with these models.
func With(models chat.Models) []cli.Wing {
	return []cli.Wing{
		historycmd.Wing(),
		searchcmd.Wing(),
		insightcmd.Wing(),
		hookcmd.Wing(),
		proxycmd.Wing(),
		sessions.Wing(),
		packcmd.Wing(),
		chatcmd.Wing(models),
		transfercmd.Wing(),
		webcmd.Wing(),
		worldscmd.Wing(models),
	}
}
