package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/kubelet"
	"github.com/millrace/millrace/internal/kubelet/credentials"
	"github.com/millrace/millrace/loop"
)

// joinFlags configure how a kubelet gets its certificates, under the kubelet's names.
type joinFlags struct {
	bootstrap, token      string
	directory             string
	rotate, rotateServing bool
}

func (f *joinFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.bootstrap, "bootstrap-kubeconfig", "", "kubeconfig for requesting a client certificate if --kubeconfig does not exist; that file is written then")
	fl.StringVar(&f.token, "bootstrap-token", "", "bootstrap token, instead of --bootstrap-kubeconfig; the cluster-info of --master is trusted if it is signed with the token")
	fl.StringVar(&f.directory, "cert-dir", "", "directory for the certificates that the kubelet requests (default: pki in --root-dir)")
	fl.BoolVar(&f.rotate, "rotate-certificates", true, "renew the client certificate in --cert-dir before it expires")
	fl.BoolVar(&f.rotateServing, "rotate-server-certificates", false, "also request the serving certificate; its requests must be approved by an administrator")
}

// certificates returns the directory for requested certificates.
func (f *Flags) certificates() string {
	if f.joining.directory != "" {
		return f.joining.directory
	}
	return filepath.Join(f.root, "pki")
}

// nodeName is the node's own name.
func (f *Flags) nodeName() (string, error) {
	if f.name != "" {
		return f.name, nil
	}
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// join connects to the API server: with the kubeconfig if it exists, otherwise with a client certificate that is
// requested first. The returned runner renews the certificate.
func (f *Flags) join(ctx context.Context, out io.Writer) (*loop.Clients, *rest.Config, loop.Runner, error) {
	nothing := loop.Func(func(context.Context) error { return nil })
	if f.joining.bootstrap == "" && f.joining.token == "" {
		clients, config, err := f.Clients(out)
		return clients, config, nothing, err
	}
	if f.nodes > 1 {
		return nil, nil, nil, errors.New("--bootstrap-kubeconfig gets the certificate of one node: --nodes may be 1 at most")
	}
	log, err := f.Log.Logger(os.Stderr)
	if err != nil {
		return nil, nil, nil, err
	}
	bootstrap, err := f.bootstrap(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	node, err := f.joiningName()
	if err != nil {
		return nil, nil, nil, err
	}
	identity, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bootstrap, Node: node, Directory: f.certificates(), Logger: log})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	if !identity.Good() {
		fmt.Fprintf(out, "Asking %s for a certificate of the node %s.\n", bootstrap.Host, node)
	}
	if err := identity.Ensure(ctx); err != nil {
		return nil, nil, nil, err
	}
	if err := f.writeKubeconfig(bootstrap, identity.File()); err != nil {
		return nil, nil, nil, err
	}
	clients, err := loop.NewClients(identity.Config(), log)
	if err != nil {
		return nil, nil, nil, err
	}
	fmt.Fprintf(out, "Working for %s as the node %s. Ctrl-C ends it.\n", bootstrap.Host, node)
	if !f.joining.rotate {
		return clients, bootstrap, nothing, nil
	}
	return clients, bootstrap, identity, nil
}

// joiningName returns the name of the node that joins. Names of hollow nodes are numbered from 0.
func (f *Flags) joiningName() (string, error) {
	if f.nodes == 1 {
		return f.hollowName(), nil
	}
	return f.nodeName()
}

// bootstrap returns the client configuration for requesting the first certificate.
func (f *Flags) bootstrap(ctx context.Context) (*rest.Config, error) {
	if f.joining.token == "" {
		return f.readBootstrap()
	}
	if f.Kubeconfig != "" {
		if _, err := os.Stat(f.Kubeconfig); err == nil { // the node has joined before
			f.joining.bootstrap = f.Kubeconfig
			return f.readBootstrap()
		}
	}
	if f.Master == "" {
		return nil, errors.New("--bootstrap-token needs the address of the API server in --master")
	}
	config, err := credentials.Discover(ctx, f.Master, f.joining.token)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-token: %w", err)
	}
	return config, nil
}

// readBootstrap reads --bootstrap-kubeconfig. If that file is gone, the kubeconfig that was written has the server's
// address.
func (f *Flags) readBootstrap() (*rest.Config, error) {
	path := f.joining.bootstrap
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && f.Kubeconfig != "" {
		path = f.Kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags(f.Master, path)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	return config, rest.LoadTLSFiles(config)
}

// writeKubeconfig writes --kubeconfig, with which other programs reach the API server as this node, unless it exists.
func (f *Flags) writeKubeconfig(bootstrap *rest.Config, certificate string) error {
	if f.Kubeconfig == "" {
		return nil
	}
	if _, err := os.Stat(f.Kubeconfig); err == nil {
		return nil
	}
	const name = "default"
	file, err := filepath.Abs(certificate)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: bootstrap.Host, CertificateAuthorityData: bootstrap.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: file, ClientKey: file}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, f.Kubeconfig); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return nil
}

// serving returns the node's requested serving certificate.
func (f *Flags) serving(clients *loop.Clients) (credentials.Serving, error) {
	node, err := f.nodeName()
	if err != nil {
		return credentials.Serving{}, err
	}
	addresses := strings.FieldsFunc(f.nodeIP, func(r rune) bool { return r == ',' })
	if len(addresses) == 0 {
		addresses = []string{kubelet.OwnAddress()}
	}
	hosts := append([]string{node}, addresses...)
	return credentials.NewServing(credentials.ServingOptions{
		Kube: clients.Kube, Node: node, Directory: f.certificates(), Hosts: func() []string { return hosts }, Logger: clients.Log,
	}), nil
}

// hollowName is the name of the first hollow node.
func (f *Flags) hollowName() string { return cmp.Or(f.prefix(), "hollow-") + "0" }
