// Package web serves the HTTP API of a store and the page that uses it. 'segno web' and
// 'segno serve' run it; package client is a client in Go.
//
// The API is JSON below /api/v1. [Server] checks each request before it reaches a handler: the
// Host and Origin headers against the addresses of the server, so that neither another site nor a
// rebound DNS name reaches it, and the bearer token. The page at / has no data and needs no
// token. A handler is a method of Server with a struct of parameters and a struct as its result;
// routes.go has the table, from which the OpenAPI document is made.
//
// Every answer is bounded: lists and texts come in windows.
package web
