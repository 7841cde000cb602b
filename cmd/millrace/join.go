package main

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

	"github.com/millrace/millrace/kubelet"
	"github.com/millrace/millrace/kubelet/credentials"
	"github.com/millrace/millrace/loop"
)

// joinFlags say how a kubelet gets its certificates, under the kubelet's names.
type joinFlags struct {
	bootstrap, token      string
	folder                string
	rotate, rotateServing bool
}

func (f *joinFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.bootstrap, "bootstrap-kubeconfig", "", "how to ask for a client certificate while --kubeconfig is not there yet; that file is then written")
	fl.StringVar(&f.token, "bootstrap-token", "", "a bootstrap token, instead of --bootstrap-kubeconfig: what --master says of itself is believed if it is signed by the token")
	fl.StringVar(&f.folder, "cert-dir", "", "folder of the certificates that the kubelet asks for (default: pki in --root-dir)")
	fl.BoolVar(&f.rotate, "rotate-certificates", true, "ask for a new client certificate before the present one of --cert-dir ends")
	fl.BoolVar(&f.rotateServing, "rotate-server-certificates", false, "ask for the certificate to serve, too; somebody has to approve such requests")
}

// certificates is the folder of what the kubelet asks for.
func (f *kubeletFlags) certificates() string {
	if f.joining.folder != "" {
		return f.joining.folder
	}
	return filepath.Join(f.root, "pki")
}

// nodeName is the node's own name.
func (f *kubeletFlags) nodeName() (string, error) {
	if f.name != "" {
		return f.name, nil
	}
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// join connects to the API server: by the kubeconfig if it is there, or else by a certificate that is asked for first. The runner keeps
// that certificate good.
func (f *kubeletFlags) join(ctx context.Context, out io.Writer) (*loop.Clients, *rest.Config, loop.Runner, error) {
	nothing := loop.Func(func(context.Context) error { return nil })
	if f.joining.bootstrap == "" && f.joining.token == "" {
		clients, config, err := f.clients(out)
		return clients, config, nothing, err
	}
	if f.nodes > 1 {
		return nil, nil, nil, errors.New("--bootstrap-kubeconfig gets the certificate of one node: --nodes may be 1 at most")
	}
	log, err := f.log.logger(os.Stderr)
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
	identity, err := credentials.NewClient(credentials.ClientOptions{Bootstrap: bootstrap, Node: node, Folder: f.certificates(), Logger: log})
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

// joiningName is the name of the node that joins: a hollow one counts from zero.
func (f *kubeletFlags) joiningName() (string, error) {
	if f.nodes == 1 {
		return f.hollowName(), nil
	}
	return f.nodeName()
}

// bootstrap is how the API server is reached while there is no certificate yet.
func (f *kubeletFlags) bootstrap(ctx context.Context) (*rest.Config, error) {
	if f.joining.token == "" {
		return f.readBootstrap()
	}
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err == nil { // it has joined
			f.joining.bootstrap = f.kubeconfig
			return f.readBootstrap()
		}
	}
	if f.master == "" {
		return nil, errors.New("--bootstrap-token needs the address of the API server in --master")
	}
	config, err := credentials.Discover(ctx, f.master, f.joining.token)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-token: %w", err)
	}
	return config, nil
}

// readBootstrap reads --bootstrap-kubeconfig. Where it has been used up, the kubeconfig that was written tells where the API server is.
func (f *kubeletFlags) readBootstrap() (*rest.Config, error) {
	path := f.joining.bootstrap
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && f.kubeconfig != "" {
		path = f.kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags(f.master, path)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	return config, rest.LoadTLSFiles(config)
}

// writeKubeconfig writes --kubeconfig, by which others reach the API server as this node, unless it is there.
func (f *kubeletFlags) writeKubeconfig(bootstrap *rest.Config, certificate string) error {
	if f.kubeconfig == "" {
		return nil
	}
	if _, err := os.Stat(f.kubeconfig); err == nil {
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
	if err := clientcmd.WriteToFile(*config, f.kubeconfig); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return nil
}

// serving is the certificate of the node's server, which is asked for.
func (f *kubeletFlags) serving(clients *loop.Clients) (credentials.Serving, error) {
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
		Kube: clients.Kube, Node: node, Folder: f.certificates(), Hosts: func() []string { return hosts }, Logger: clients.Log,
	}), nil
}

// hollowName is the name of the first hollow node.
func (f *kubeletFlags) hollowName() string { return cmp.Or(f.prefix(), "hollow-") + "0" }
