package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

type operationList struct {
	Operations []history.Operation `json:"operations"` // newest first
}

type operationsParams struct {
	Workspace segno.WorkspaceID `query:"workspace" max:"1024" required:"true"`
	Limit     int               `query:"limit" default:"50" min:"1" max:"500"`
}

func (s *Server) listOperations(ctx context.Context, p *operationsParams) (operationList, error) {
	list := operationList{Operations: []history.Operation{}}
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
	list.Operations = history.Operations(ops)
	return list, nil
}
