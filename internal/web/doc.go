// Package web serves the HTTP API of a store and the page that uses it. 'segno web' and
// 'segno serve' run it; package client is a client in Go.
//
// The API is JSON below /api/v1. Before a request reaches a handler, [Server] checks its bearer
// token, and its Host and Origin headers against the addresses of the server, so that neither
// another site nor a rebound DNS name can send requests. The page at / has no data and needs no
// token. A handler is a method of Server with a struct of parameters and a struct as its result.
// The table of handlers is in routes.go; a test generates the OpenAPI document from it.
//
// Every answer is bounded: lists and texts come in windows.
package web
