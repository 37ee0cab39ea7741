package acpagent

import (
	"errors"
	"fmt"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// requestError converts an error for the protocol.
func requestError(err error) error {
	if err == nil {
		return nil
	}
	e := &acp.RequestError{Code: codeInternal, Message: err.Error(), Data: map[string]any{"kind": segno.KindOf(err), "hint": segno.HintOf(err)}}
	switch segno.KindOf(err) {
	case segno.KindNotFound:
		e.Code = codeNotFound
	case segno.KindInvalid:
		e.Code = codeInvalid
	case segno.KindCancelled:
		e.Code = codeCancelled
	}
	var model *agent.ModelError
	if errors.As(err, &model) && model.Status != 0 {
		e.Message = fmt.Sprintf("%s (status %d)", e.Message, model.Status)
	}
	return e
}

// Error codes of JSON-RPC and of the protocol.
const (
	codeInternal  = -32603
	codeInvalid   = -32602
	codeNotFound  = -32002
	codeCancelled = -32800
)
