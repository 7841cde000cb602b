package apiserver

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// socketWrite is how long one frame may take to be taken by the connection.
	socketWrite = 30 * time.Second
	// socketClose is how long the word of farewell may take.
	socketClose = time.Second
	// lengthPrefix is what tells protobuf frames apart in a stream; a message of a WebSocket needs none.
	lengthPrefix = 4
	// largestSocketRead bounds what a watcher may say: it has nothing to say.
	largestSocketRead = 4 << 10
)

// openSocket makes a WebSocket of the connection, with one message for each event: text for JSON, binary for protobuf. The
// context ends when the peer goes away or the server ends its streams. If the handshake fails it has been answered.
func (c *call) openSocket(f *frames) (ctx context.Context, done func(), err error) {
	upgrader := websocket.Upgrader{HandshakeTimeout: socketWrite, Subprotocols: offered(c.r)}
	socket, err := upgrader.Upgrade(c.w.ResponseWriter, c.r, nil)
	if err != nil {
		return nil, nil, err
	}
	c.w.code = http.StatusSwitchingProtocols
	kind := websocket.TextMessage
	if f.c.format.media == mediaProto {
		kind = websocket.BinaryMessage
	}
	f.send = func(b []byte) error {
		if kind == websocket.BinaryMessage {
			b = b[lengthPrefix:]
		}
		c.w.bytes += int64(len(b))
		socket.SetWriteDeadline(time.Now().Add(socketWrite))
		return socket.WriteMessage(kind, b)
	}
	c.s.sockets.Add(1)
	hurry := context.AfterFunc(c.s.ends, func() { _ = socket.NetConn().SetDeadline(time.Now().Add(socketClose)) })
	ctx, cancel := context.WithCancel(c.r.Context())
	reading := make(chan struct{})
	go func() { // ends when the socket is closed, which done does, and waits for
		defer close(reading)
		defer cancel()
		socket.SetReadLimit(largestSocketRead)
		for {
			if _, _, err := socket.NextReader(); err != nil {
				return
			}
		}
	}()
	return ctx, func() {
		defer c.s.sockets.Done()
		hurry()
		farewell := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		// A peer that has gone does not hear it.
		_ = socket.WriteControl(websocket.CloseMessage, farewell, time.Now().Add(socketClose))
		socket.Close()
		<-reading
	}, nil
}

// offered are the protocols that a client proposes, without the one that carries its token.
func offered(r *http.Request) []string {
	var out []string
	for _, p := range websocket.Subprotocols(r) {
		if !strings.HasPrefix(p, "base64url.bearer.authorization.k8s.io.") {
			out = append(out, p)
		}
	}
	return out
}
