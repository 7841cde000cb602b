package data

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
	"github.com/millrace/millrace/cmd/millrace/internal/serving"
	"github.com/millrace/millrace/internal/assembly/objects"
	"github.com/millrace/millrace/internal/server/bootstrap"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/core"
	"github.com/millrace/millrace/internal/server/store"
)

// leftover is an object in somebody's etcd cluster that would not be there, or not be so, without Millrace.
type leftover struct {
	key      string
	revision store.Revision
	// rest is what stays of the object; nil if it is to be removed.
	rest []byte
	note string
}

func cleanUpCommand() *cobra.Command {
	var keys string
	var servers flags.Etcd
	var yes bool
	c := &cobra.Command{
		Use: "clean-up --etcd-servers URLS", Aliases: []string{"cleanup"}, Args: cobra.NoArgs,
		Short: "List what Millrace has left in an etcd cluster that kube-apiservers go on with, and remove it",
		Long: "List what Millrace has left in an etcd cluster that kube-apiservers go on with, and remove it: its roles and bindings, and the\n" +
			"certificates of its own authorities that it has published. End the Millrace servers first: they make these objects again.",
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) (err error) {
			s, err := (&move{servers: servers, out: c.ErrOrStderr()}).dial(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			ours := ownCertificates(keys)
			return cleanUp(ctx, s, ours, c.OutOrStdout(), func() bool { return yes || flags.Agreed(c.InOrStdin(), c.OutOrStdout(), "Remove all this?") })
		}),
	}
	servers.Add(c, "required")
	c.Flags().StringVar(&keys, "keys", filepath.Join(serving.DefaultData(), "pki"), "directory of the keys that Millrace made, to recognize its certificates")
	c.Flags().BoolVar(&yes, "yes", false, "remove without asking")
	return c
}

// cleanUp lists what is left, and removes it if that is confirmed. An object that has changed meanwhile is an error.
func cleanUp(ctx context.Context, s store.Store, ours func(*x509.Certificate) bool, out io.Writer, confirm func() bool) error {
	all, err := leftovers(ctx, s, ours)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(out, "Millrace has left nothing here.")
		return nil
	}
	for _, l := range all {
		fmt.Fprintf(out, "%s%s\n", l.key, l.note)
	}
	if !confirm() {
		fmt.Fprintln(out, "Nothing was removed.")
		return nil
	}
	for _, l := range all {
		if l.rest == nil {
			_, err = s.Delete(ctx, l.key, l.revision)
		} else {
			_, err = s.Update(ctx, l.key, l.rest, l.revision, 0)
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", l.key, err)
		}
	}
	fmt.Fprintf(out, "%d objects were removed or set right.\n", len(all))
	return nil
}

func leftovers(ctx context.Context, s store.Store, ours func(*x509.Certificate) bool) (all []leftover, err error) {
	for _, key := range objects.OwnKeys() {
		e, err := s.Get(ctx, key, store.GetOptions{})
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", key, err)
		default:
			all = append(all, leftover{key: key, revision: e.Revision})
		}
	}
	for _, m := range []struct {
		key  string
		look func(*corev1.ConfigMap, func(*x509.Certificate) bool) (found, stays bool)
		note string
	}{
		{registry.Root + "configmaps/kube-system/" + bootstrap.TrustName, withoutCertificates, " (only the certificates of its authorities)"},
		{registry.Root + "configmaps/kube-public/cluster-info", ownInfo, " (which has the certificate of its authority)"},
	} {
		l, found, err := inConfigMap(ctx, s, m.key, func(o *corev1.ConfigMap) (bool, bool) { return m.look(o, ours) })
		if err != nil {
			return nil, err
		}
		if l.note = m.note; found {
			all = append(all, l)
		}
	}
	return all, nil
}

// inConfigMap looks for what is ours in a config map, and returns what stays of it.
func inConfigMap(ctx context.Context, s store.Store, key string, look func(*corev1.ConfigMap) (found, stays bool)) (l leftover, found bool, err error) {
	e, err := s.Get(ctx, key, store.GetOptions{})
	if errors.Is(err, store.ErrNotFound) {
		return l, false, nil
	}
	if err != nil {
		return l, false, fmt.Errorf("read %s: %w", key, err)
	}
	kind := core.ConfigMaps()
	var o resource.Object
	if o, err = kind.Decode(ctx, e.Value, ""); err != nil {
		return l, false, fmt.Errorf("read %s, which may be encrypted: %w", key, err)
	}
	found, stays := look(o.(*corev1.ConfigMap))
	l = leftover{key: key, revision: e.Revision}
	if found && stays {
		l.rest, err = kind.Encode(ctx, o)
	}
	return l, found, err
}

// ownName is the common name of the authorities that Millrace makes.
const ownName = "millrace-ca"

// ownCertificates returns what recognizes the certificates of Millrace's authorities: by their name, or because they
// are in its directory of keys, which may be gone.
func ownCertificates(directory string) func(*x509.Certificate) bool {
	var known []*x509.Certificate
	for _, name := range []string{"ca.crt", "front-proxy-ca.crt"} {
		if c, err := pki.ReadCertificate(filepath.Join(directory, name)); err == nil {
			known = append(known, c)
		}
	}
	return func(c *x509.Certificate) bool {
		for _, k := range known {
			if k.Equal(c) {
				return true
			}
		}
		return c.Subject.CommonName == ownName
	}
}

// withoutCertificates removes our certificates from the bundles of a config map.
func withoutCertificates(o *corev1.ConfigMap, ours func(*x509.Certificate) bool) (found, stays bool) {
	for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
		rest, some := split([]byte(o.Data[key]), ours)
		if !some {
			continue
		}
		if found, o.Data[key] = true, string(rest); len(rest) == 0 {
			delete(o.Data, key)
		}
	}
	return found, true
}

// ownInfo reports whether a cluster-info names our authority. Then it is no use to anybody, and does not stay.
func ownInfo(o *corev1.ConfigMap, ours func(*x509.Certificate) bool) (found, stays bool) {
	config, err := clientcmd.Load([]byte(o.Data["kubeconfig"]))
	if err != nil {
		return false, true
	}
	for _, cluster := range config.Clusters {
		if _, some := split(cluster.CertificateAuthorityData, ours); some {
			return true, false
		}
	}
	return false, true
}

// split returns a bundle without our certificates, and whether there were some.
func split(bundle []byte, ours func(*x509.Certificate) bool) (rest []byte, some bool) {
	var out bytes.Buffer
	for block, more := pem.Decode(bundle); block != nil; block, more = pem.Decode(more) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && ours(c) {
			some = true
			continue
		}
		out.Write(pem.EncodeToMemory(block))
	}
	return out.Bytes(), some
}
