package connections

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"time"

	"github.com/gorilla/websocket"
)

// The WebSocket subprotocols for logs: binary messages, which is the default, or text in base64.
const (
	binaryProtocol = "binary.k8s.io"
	base64Protocol = "base64.binary.k8s.io"
)

const (
	// socketWrite is how long the client may take to read one message.
	socketWrite = 30 * time.Second
	// longestMessage is how much of a log one message carries, and longestWord the largest message from the client,
	// which has nothing to send.
	longestMessage = 32 << 10
	longestWord    = 4 << 10
)

// socketLogs sends a log over a WebSocket. Each message carries what can be read at the time.
func socketLogs(q request, log io.Reader) error {
	upgrader := websocket.Upgrader{Subprotocols: []string{binaryProtocol, base64Protocol}, CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(q.w, q.r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	ctx, cancel := context.WithCancel(q.ctx)
	reading := make(chan struct{})
	go func() { // ends when the connection is closed; socketLogs waits for it
		defer close(reading)
		defer cancel()
		conn.SetReadLimit(longestWord)
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
		}
	}()
	unhook := context.AfterFunc(ctx, func() { _ = conn.NetConn().SetWriteDeadline(time.Now()) })
	if copyMessages(conn, log) == nil && unhook() {
		// If the client has disconnected, it does not get the message.
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(closeTimeout))
	}
	cancel()
	conn.Close()
	<-reading
	return nil
}

// copyMessages sends until the end of the log.
func copyMessages(conn *websocket.Conn, from io.Reader) error {
	b := make([]byte, longestMessage)
	for {
		n, err := from.Read(b)
		if n > 0 {
			_ = conn.SetWriteDeadline(time.Now().Add(socketWrite))
			if err := writeMessage(conn, b[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func writeMessage(conn *websocket.Conn, b []byte) error {
	if conn.Subprotocol() == base64Protocol {
		return conn.WriteMessage(websocket.TextMessage, base64.StdEncoding.AppendEncode(nil, b))
	}
	return conn.WriteMessage(websocket.BinaryMessage, b)
}
