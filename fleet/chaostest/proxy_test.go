package chaostest

import (
	"bytes"
	"net"
	"sync"
)

// proxy forwards connections to the server. When it is armed, it loses the acknowledgement of the next commit of a transaction: it
// forwards the statement, and ends the connection instead of forwarding the answer.
type proxy struct {
	listener net.Listener
	to       string
	group    sync.WaitGroup

	mu    sync.Mutex
	armed int
	lost  int
	conns map[net.Conn]bool
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]bool{}}
	p.group.Go(p.serve)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.forward(client) })
	}
}

// arm makes the proxy lose one more acknowledgement.
func (p *proxy) arm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed++
}

func (p *proxy) track(c net.Conn, isOpen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isOpen {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
	}
}

// loses reports whether the answer to a message of a client is lost.
func (p *proxy) loses(message []byte) bool {
	if !bytes.Contains(message, []byte("commit\x00")) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == 0 {
		return false
	}
	p.armed--
	p.lost++
	return true
}

func (p *proxy) forward(client net.Conn) {
	p.track(client, true)
	defer p.track(client, false)
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	var mu sync.Mutex
	isLosing := false
	var group sync.WaitGroup
	group.Go(func() { // from the server
		defer client.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := server.Read(buffer)
			mu.Lock()
			stop := isLosing
			mu.Unlock()
			if err != nil || stop { // the server has executed the commit
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 32<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			break
		}
		if p.loses(buffer[:n]) {
			mu.Lock()
			isLosing = true
			mu.Unlock()
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
	}
	server.Close()
	group.Wait()
}

// close ends all connections.
func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}
