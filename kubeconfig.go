package millrace

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/durable"
)

// Kubeconfig is a file with which kubectl and others reach the cluster, as its administrator. Its certificate is good for a year;
// eleven months after its making this is another one.
func (c *Cluster) Kubeconfig() []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["millrace"] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.authorities()}
	admin := c.certificates.keys.Keys().Admin
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
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
	if err := durable.WriteFile(path, c.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
