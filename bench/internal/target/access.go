package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/millrace/millrace/bench/internal/h2"
)

// Access is what another process needs to be a server's administrator.
type Access struct {
	Address       string
	CA, Cert, Key []byte // PEM
}

// Dial opens a connection.
func (a Access) Dial(ctx context.Context, wire *h2.Wire) (*h2.Conn, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	return h2.Dial(ctx, a.Address, config, wire)
}

func (a Access) config() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.CA) {
		return nil, errors.New("the server's authority cannot be read")
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}, nil
}
