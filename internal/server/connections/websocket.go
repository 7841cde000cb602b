package connections

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/websocket"
)

// Kubernetes sends SPDY through proxies that only know WebSocket: the binary messages of the WebSocket are the bytes of
// a SPDY connection. Kubelets support only SPDY, so the WebSocket is unwrapped here.
const (
	spdy            = "SPDY/3.1"
	portForwarding  = "portforward.k8s.io"
	tunnelProtocol  = spdy + "+" + portForwarding
	protocolVersion = "X-Stream-Protocol-Version"
)

var errUnknownToKubelet = errors.New("the kubelet does not accept the API server's client certificate")

// closeTimeout is how long sending the close message of a WebSocket may take.
const closeTimeout = time.Second

// tunnelled reports whether the client sends SPDY inside of a WebSocket.
func tunnelled(r *http.Request) bool {
	return websocket.IsWebSocketUpgrade(r) && slices.Contains(websocket.Subprotocols(r), tunnelProtocol)
}

// unwrap serves a WebSocket that carries a SPDY connection to the kubelet.
func (c *Connections) unwrap(q request, to *url.URL) error {
	answer, err := dial(q, c.kubelet, to, http.MethodPost, http.Header{"Upgrade": {spdy}, protocolVersion: {portForwarding}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return sendRefusal(q.w, answer)
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{tunnelProtocol}, CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(q.w, q.r, nil)
	if err != nil {
		return nil // the upgrader has answered
	}
	copyBoth(q.ctx, &messages{conn: conn}, answer.Body.(io.ReadWriteCloser))
	return nil
}

// messages presents a WebSocket as a stream of bytes.
type messages struct {
	conn *websocket.Conn
	now  io.Reader // the message that is being read
}

var errNotBinary = errors.New("a message is not binary")

// Read implements io.Reader.
func (m *messages) Read(b []byte) (int, error) {
	for {
		if m.now == nil {
			kind, next, err := m.conn.NextReader()
			switch {
			case websocket.IsCloseError(err, websocket.CloseNormalClosure):
				return 0, io.EOF
			case err != nil:
				return 0, err
			case kind != websocket.BinaryMessage:
				return 0, errNotBinary
			}
			m.now = next
		}
		n, err := m.now.Read(b)
		if err != io.EOF {
			return n, err
		}
		m.now = nil
		if n > 0 {
			return n, nil
		}
	}
}

// Write implements io.Writer.
func (m *messages) Write(b []byte) (int, error) {
	if err := m.conn.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close sends the close message and closes the connection.
func (m *messages) Close() error {
	text := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	return errors.Join(m.conn.WriteControl(websocket.CloseMessage, text, time.Now().Add(closeTimeout)), m.conn.Close())
}
