package stream

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace/millrace/server/apiserver/internal/negotiate"
)

const (
	// socketWrite is how long one frame may take to be taken by the connection.
	socketWrite = 30 * time.Second
	// socketClose is how long the closing message may take.
	socketClose = time.Second
	// lengthPrefix is what tells protobuf frames apart in a stream; a message of a WebSocket needs none.
	lengthPrefix = 4
	// largestSocketRead bounds what a watcher may say: it has nothing to say.
	largestSocketRead = 4 << 10
)

// openSocket makes a WebSocket of the connection, with one message for each event: text for JSON, binary for protobuf. The
// context ends when the peer goes away or the server ends its streams. If the handshake fails it has been answered.
func (s *Stream) openSocket() (ctx context.Context, done func(), err error) {
	a, f := s.Answer, s.frames
	upgrader := websocket.Upgrader{HandshakeTimeout: socketWrite, Subprotocols: offered(a.Request)}
	socket, err := upgrader.Upgrade(a.Writer.ResponseWriter, a.Request, nil)
	if err != nil {
		return nil, nil, err
	}
	a.Writer.Code = http.StatusSwitchingProtocols
	kind := websocket.TextMessage
	if a.Format.Media == negotiate.Protobuf {
		kind = websocket.BinaryMessage
	}
	f.send = func(b []byte) error {
		if kind == websocket.BinaryMessage {
			b = b[lengthPrefix:]
		}
		a.Writer.Bytes += int64(len(b))
		socket.SetWriteDeadline(time.Now().Add(socketWrite))
		return socket.WriteMessage(kind, b)
	}
	s.Sockets.Add(1)
	hurry := context.AfterFunc(s.Ends, func() { _ = socket.NetConn().SetDeadline(time.Now().Add(socketClose)) })
	ctx, cancel := context.WithCancel(a.Request.Context())
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
		defer s.Sockets.Done()
		hurry()
		last := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		// A client that has gone does not get it.
		_ = socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(socketClose))
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
