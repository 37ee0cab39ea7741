package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lineReader reads the lines of a client and passes on those that are messages. It answers each other line with an error, as
// JSON-RPC wants it: the connection of the SDK would end at such a line.
type lineReader struct {
	in    *bufio.Reader
	close io.Closer
	reply io.Writer

	rest    []byte // of the line that is passed on
	isLong  bool   // the last part read belongs to a line that is too long, and has no end yet
	isKnown bool   // a message was read
	bad     error  // of the first line that is none

	// refusesBatches is set once the client uses a version of the protocol without batches.
	refusesBatches atomic.Bool
}

// newLineReader returns a reader of in that writes its answers to reply.
func newLineReader(in io.ReadCloser, reply io.Writer) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, maxMessage), close: in, reply: reply}
}

func (l *lineReader) Close() error { return l.close.Close() }

// Read implements [io.Reader].
func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.in.ReadSlice('\n')
		isPart := l.isLong
		l.isLong = errors.Is(err, bufio.ErrBufferFull)
		if len(line) == 0 && err != nil {
			return 0, err
		}
		if l.isLong {
			continue // the parts of the line are dropped, and its end is answered
		}
		if isPart {
			l.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("the line has more than %d bytes", maxMessage))
			continue
		}
		if l.isMessage(line) {
			l.rest = line // ReadSlice reads no further line before this one is passed on
			break
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// isMessage reports whether a line is a message or a batch of messages. It answers a line that is none, and skips empty lines.
func (l *lineReader) isMessage(line []byte) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false
	}
	code, text := jsonrpc.CodeParseError, "the line is not JSON"
	var err error
	var value json.RawMessage
	if err = json.Unmarshal(line, &value); err == nil {
		if err = l.decodeMessages(line); err == nil {
			l.isKnown = true
			return true
		}
		code, text = jsonrpc.CodeInvalidRequest, "the line is not a message of JSON-RPC 2.0"
	}
	if l.bad == nil {
		l.bad = err
	}
	l.refuse(code, text)
	return false
}

// refuse answers a line that is not passed on.
func (l *lineReader) refuse(code int, text string) {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": jsonrpc.Error{Code: int64(code), Message: text}})
	if err == nil {
		_, _ = l.reply.Write(append(answer, '\n')) // a client that is gone is noticed by the next read
	}
}

// decodeMessages returns an error if a line of JSON is neither a message nor a batch of messages that the SDK accepts.
func (l *lineReader) decodeMessages(line []byte) error {
	if line[0] != '[' {
		_, err := jsonrpc.DecodeMessage(line)
		return err
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil {
		return err
	}
	if len(batch) == 0 || l.refusesBatches.Load() {
		return errors.New("the batch is empty, or the version of the protocol has no batches")
	}
	ids := map[jsonrpc.ID]bool{}
	for _, m := range batch {
		decoded, err := jsonrpc.DecodeMessage(m)
		if err != nil {
			return err
		}
		if request, ok := decoded.(*jsonrpc.Request); ok {
			if ids[request.ID] {
				return errors.New("two requests of the batch have the same id")
			}
			ids[request.ID] = true
		}
	}
	return nil
}

// withoutBatches is the first version of the protocol that has no batches.
const withoutBatches = "2025-06-18"

// watchVersion is a middleware that reads the version of the protocol from the answer to the client's first request.
func (l *lineReader) watchVersion(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if first, ok := res.(*mcp.InitializeResult); ok && err == nil && first.ProtocolVersion >= withoutBatches {
			l.refusesBatches.Store(true)
		}
		return res, err
	}
}

// lineWriter writes each message at once, because the server and the reader of lines write to the same client.
type lineWriter struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}
