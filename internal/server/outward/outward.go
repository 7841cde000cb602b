// Package outward is the way out of a cluster that must not have one.
package outward

import (
	"context"
	"errors"
	"net"
)

// Refuse opens no connection.
func Refuse(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("this cluster calls nobody outside: see spec.outward of its ControlPlane")
}
