package millrace

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is a file with which kubectl and others reach the cluster, as its administrator.
func (c *Cluster) Kubeconfig() []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["millrace"] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.authorities()}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: c.keys.Admin.CertPEM, ClientKeyData: c.keys.Admin.KeyPEM}
	config.Contexts["millrace"] = &clientcmdapi.Context{Cluster: "millrace", AuthInfo: "admin"}
	config.CurrentContext = "millrace"
	b, err := clientcmd.Write(*config)
	if err != nil {
		panic(fmt.Sprintf("millrace: a kubeconfig cannot be encoded: %v", err))
	}
	return b
}

// WriteKubeconfig writes it to a file that only its owner can read.
func (c *Cluster) WriteKubeconfig(path string) error {
	next := path + ".new"
	if err := os.WriteFile(next, c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.Rename(next, path)
}
