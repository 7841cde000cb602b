// Package token is `millrace token`: tokens with which nodes join a cluster.
package token

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/cmd/millrace/internal/client"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// tokenFlags configure a bootstrap token, under kubeadm's names.
type tokenFlags struct {
	client.Flags
	ttl            time.Duration
	usages, groups []string
	description    string
	printJoin      bool
}

func Command() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make tokens with which nodes join the cluster"}
	f := &tokenFlags{}
	create := &cobra.Command{
		Use: "create", Short: "Make a bootstrap token and print it", Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, c *cobra.Command) error { return f.create(ctx, c.OutOrStdout()) }),
	}
	f.Add(create)
	fl := create.Flags()
	fl.DurationVar(&f.ttl, "ttl", 24*time.Hour, "validity of the token; 0: for ever")
	fl.StringSliceVar(&f.usages, "usages", []string{"signing", "authentication"}, "allowed uses of the token")
	fl.StringSliceVar(&f.groups, "groups", []string{"system:bootstrappers:kubeadm:default-node-token"}, "groups of clients with the token")
	fl.StringVar(&f.description, "description", "", "description of the token")
	fl.BoolVar(&f.printJoin, "print-join-command", false, "print the command that makes a machine a node, instead of only the token")
	c.AddCommand(create)
	return c
}

func (f *tokenFlags) create(ctx context.Context, out io.Writer) error {
	clients, config, err := f.Clients(io.Discard)
	if err != nil {
		return err
	}
	id, proof := letters(6), letters(16)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": proof},
	}
	if f.ttl > 0 {
		s.StringData["expiration"] = time.Now().Add(f.ttl).UTC().Format(time.RFC3339)
	}
	if f.description != "" {
		s.StringData["description"] = f.description
	}
	if len(f.groups) > 0 {
		s.StringData["auth-extra-groups"] = strings.Join(f.groups, ",")
	}
	for _, u := range f.usages {
		if u != "signing" && u != "authentication" {
			return fmt.Errorf("--usages: %q is neither signing nor authentication", u)
		}
		s.StringData["usage-bootstrap-"+u] = "true"
	}
	if _, err := clients.Kube.CoreV1().Secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the token: %w", err)
	}
	if f.printJoin {
		_, err = fmt.Fprintf(out, "millrace kubelet --master %s --bootstrap-token %s.%s\n", config.Host, id, proof)
		return err
	}
	_, err = fmt.Fprintf(out, "%s.%s\n", id, proof)
	return err
}

// letters returns random characters for a token.
func letters(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	for range n {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic("no randomness: " + err.Error())
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String()
}
