package stream

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
)

const (
	// socketWrite is how long the client may take to read one frame.
	socketWrite = 30 * time.Second
	// socketClose is how long sending the close message may take.
	socketClose = time.Second
	// lengthPrefix is the length of what separates protobuf frames in a stream; WebSocket messages do not need it.
	lengthPrefix = 4
	// largestSocketRead bounds the messages of a watcher, which has nothing to send.
	largestSocketRead = 4 << 10
)

// openSocket upgrades the connection to a WebSocket, with one message for each event: text for JSON, binary for
// protobuf. The context ends when the client disconnects or the server ends its streams. If the handshake fails, the
// error has been sent.
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
	go func() { // ends when the socket is closed; done closes it and waits for this
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
		// A client that has disconnected does not get it.
		_ = socket.WriteControl(websocket.CloseMessage, last, time.Now().Add(socketClose))
		socket.Close()
		<-reading
	}, nil
}

// offered returns the subprotocols that a client offers, without the one that contains its bearer token.
func offered(r *http.Request) []string {
	var out []string
	for _, p := range websocket.Subprotocols(r) {
		if !strings.HasPrefix(p, "base64url.bearer.authorization.k8s.io.") {
			out = append(out, p)
		}
	}
	return out
}
