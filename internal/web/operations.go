package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

type operationList struct {
	Operations []operation `json:"operations"` // newest first
}

type operation struct {
	history.Operation
	About string `json:"about"` // of an undo or a redo: the title of the newest turn that it moved over
}

type operationsParams struct {
	Workspace segno.WorkspaceID `query:"workspace" max:"1024" required:"true"`
	Limit     int               `query:"limit" default:"50" min:"1" max:"500"`
}

func (s *Server) listOperations(ctx context.Context, p *operationsParams) (operationList, error) {
	list := operationList{Operations: []operation{}}
	workspaces, ok := s.Store.(segno.Workspaces)
	if !ok {
		return list, nil
	}
	if _, err := workspaces.Workspace(ctx, p.Workspace); err != nil {
		return list, err
	}
	var ops []segno.Operation
	for op, err := range workspaces.Operations(ctx, p.Workspace) {
		if err != nil {
			return list, err
		}
		if ops = append(ops, op); len(ops) == p.Limit {
			break
		}
	}
	for _, op := range history.Operations(ops) {
		about, err := op.About(ctx, s.Store)
		if err != nil && !isDamage(err) {
			return list, err
		}
		list.Operations = append(list.Operations, operation{op, history.Cut(about, maxTitle)})
	}
	return list, nil
}
