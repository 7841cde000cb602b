package flags

import (
	"time"

	"github.com/spf13/cobra"
)

// Etcd says how to reach an etcd cluster.
type Etcd struct {
	Servers                   []string
	CertFile, KeyFile, CAFile string
	StartTimeout              time.Duration
}

// Add adds the flags. without says what happens without them.
func (e *Etcd) Add(c *cobra.Command, without string) {
	fl := c.Flags()
	fl.StringSliceVar(&e.Servers, "etcd-servers", nil, "URLs of an etcd cluster, separated by commas ("+without+")")
	fl.StringVar(&e.CertFile, "etcd-certfile", "", "client certificate for the etcd cluster")
	fl.StringVar(&e.KeyFile, "etcd-keyfile", "", "key of the client certificate")
	fl.StringVar(&e.CAFile, "etcd-cafile", "", "CA certificates of the etcd cluster")
	fl.DurationVar(&e.StartTimeout, "etcd-start-timeout", 20*time.Second, "how long to wait at the start for an etcd cluster that does not answer")
}
