//go:build linux

package pods

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/network/nft"
)

// PluginName is the plugin's name for runtimes.
const PluginName = "millrace-cni"

// versions are the supported versions of the CNI specification.
var versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// Configuration is the plugin's input. The agent writes the first part, the runtime the rest.
type Configuration struct {
	CNIVersion   string          `json:"cniVersion"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Ranges       []netip.Prefix  `json:"ranges"`
	MTU          int             `json:"mtu,omitempty"`
	Directory    string          `json:"folder"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	// Hold keeps packets from and to a new pod back until the policies of its node know it.
	Hold bool `json:"hold,omitempty"`

	Runtime struct {
		PortMappings []PortMapping `json:"portMappings,omitempty"`
	} `json:"runtimeConfig,omitzero"`
	Previous *result      `json:"prevResult,omitempty"`
	Valid    []attachment `json:"cni.dev/valid-attachments,omitempty"`
}

// PortMapping maps a port of the node to a port of a pod.
type PortMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

type attachment struct {
	ContainerID string `json:"containerID"`
	Interface   string `json:"ifname"`
}

// result is the result of ADD.
type result struct {
	CNIVersion string          `json:"cniVersion"`
	Interfaces []resultLink    `json:"interfaces"`
	IPs        []resultIP      `json:"ips"`
	Routes     []resultRoute   `json:"routes,omitempty"`
	DNS        json.RawMessage `json:"dns"`
}

type resultLink struct {
	Name    string `json:"name"`
	MAC     string `json:"mac,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
}

type resultIP struct {
	Version   string       `json:"version,omitempty"` // before 1.0.0
	Interface int          `json:"interface"`
	Address   netip.Prefix `json:"address"`
	Gateway   netip.Addr   `json:"gateway,omitzero"`
}

type resultRoute struct {
	To      netip.Prefix `json:"dst"`
	Gateway netip.Addr   `json:"gw"`
}

// Error codes of the specification.
const (
	codeVersion       = 1
	codeEnvironment   = 4
	codeDecode        = 6
	codeConfiguration = 7
	codeTryLater      = 11
	codeUnavailable   = 50
	codeOther         = 100
)

// failure is an error with a code of the specification.
type failure struct {
	code int
	err  error
}

func (f failure) Error() string { return f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// call is one call of the plugin.
type call struct {
	Configuration
	container, namespace, link string
	pod                        Owner // empty: the runtime has not named it
	addresses                  addresses
}

// owner identifies the owner of addresses: an interface of a container.
func (c *call) owner() string { return c.container + " " + c.link }

// Plugin executes CNI_COMMAND, and returns the exit code. env looks up environment variables.
func Plugin(env func(string) string, in io.Reader, out io.Writer) int {
	answer, version, err := plugin(env, in)
	if err == nil {
		if answer != nil {
			_ = json.NewEncoder(out).Encode(answer)
		}
		return 0
	}
	code := codeOther
	var f failure
	if errors.As(err, &f) {
		code = f.code
	}
	_ = json.NewEncoder(out).Encode(map[string]any{"cniVersion": version, "code": code, "msg": err.Error()})
	return 1
}

func plugin(env func(string) string, in io.Reader) (answer any, version string, err error) {
	c := call{container: env("CNI_CONTAINERID"), namespace: env("CNI_NETNS"), link: env("CNI_IFNAME"), pod: ownerIn(env("CNI_ARGS"))}
	version = versions[len(versions)-1]
	if err := json.NewDecoder(in).Decode(&c.Configuration); err != nil && (env("CNI_COMMAND") != "VERSION" || !errors.Is(err, io.EOF)) {
		return nil, version, failure{codeDecode, fmt.Errorf("read the configuration: %w", err)}
	}
	if c.CNIVersion != "" {
		version = c.CNIVersion
	}
	if env("CNI_COMMAND") == "VERSION" {
		return map[string]any{"cniVersion": version, "supportedVersions": versions}, version, nil
	}
	if !slices.Contains(versions, c.CNIVersion) {
		return nil, version, failure{codeVersion, fmt.Errorf("version %q of CNI is none of %s", c.CNIVersion, strings.Join(versions, ", "))}
	}
	if c.Type == LoopbackName {
		answer, err = c.loopback(env("CNI_COMMAND"))
		return answer, version, err
	}
	if err := c.check(); err != nil {
		return nil, version, err
	}
	c.addresses = addresses{filepath.Join(c.Directory, "addresses")}
	answer, err = c.run(env("CNI_COMMAND"))
	return answer, version, err
}

// check validates the configuration.
func (c *call) check() error {
	switch {
	case c.Directory == "":
		return failure{codeConfiguration, errors.New("the configuration names no directory")}
	case len(c.Ranges) == 0:
		return failure{codeConfiguration, errors.New("the configuration has no ranges")}
	}
	return nil
}

func (c *call) run(command string) (any, error) {
	switch command {
	case "STATUS":
		return nil, c.status()
	case "GC":
		return nil, c.garbageCollect()
	case "ADD", "DEL", "CHECK":
	default:
		return nil, failure{codeEnvironment, fmt.Errorf("CNI_COMMAND %q is not known", command)}
	}
	if c.container == "" || c.link == "" || c.namespace == "" && command != "DEL" {
		return nil, failure{codeEnvironment, errors.New("CNI_CONTAINERID, CNI_NETNS and CNI_IFNAME are needed")}
	}
	switch command {
	case "ADD":
		return c.add()
	case "CHECK":
		return nil, c.verify()
	}
	return nil, c.remove()
}

// ownerIn reads the pod that a runtime names in CNI_ARGS.
func ownerIn(args string) Owner {
	words := map[string]string{}
	for part := range strings.SplitSeq(args, ";") {
		key, value, _ := strings.Cut(part, "=")
		words[key] = value
	}
	return Owner{words["K8S_POD_NAMESPACE"], words["K8S_POD_NAME"], words["K8S_POD_UID"]}
}

// named reports whether the runtime has named the pod.
func (o Owner) named() bool { return o.Namespace != "" && o.Name != "" && o.UID != "" }

// add allocates a pod's addresses and makes its link. If it fails, it undoes everything.
func (c *call) add() (*result, error) {
	var taken []netip.Addr
	err := c.addresses.locked(func() error {
		for _, r := range c.Ranges {
			a, err := c.addresses.allocate(r, c.owner(), strings.Join([]string{c.pod.Namespace, c.pod.Name, c.pod.UID}, " "))
			if err != nil {
				return err
			}
			taken = append(taken, a)
		}
		return c.addresses.guard(c.toHold(taken)) // before there is a link
	})
	var out *result
	if err == nil {
		out, err = c.connect(taken)
	}
	if err == nil {
		err = c.openPorts(taken)
	}
	if err != nil {
		if errors.Is(err, errFull) {
			err = failure{codeTryLater, err}
		}
		return nil, errors.Join(err, c.remove())
	}
	return out, c.awaitPolicies(taken)
}

// toHold returns the addresses whose packets must wait for the policies. A pod that the runtime has not named would
// wait for ever.
func (c *call) toHold(taken []netip.Addr) []netip.Addr {
	if !c.Hold || !c.pod.named() {
		return nil
	}
	return taken
}

// patience is how long a pod's start waits for the policies, so that its first packets are not lost. After that it
// starts, and its packets wait.
const (
	patience  = 3 * time.Second
	lookEvery = 10 * time.Millisecond
)

// awaitPolicies waits until the policies know a pod's addresses.
func (c *call) awaitPolicies(taken []netip.Addr) error {
	if len(c.toHold(taken)) == 0 {
		return nil
	}
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(lookEvery) {
		waits := false
		for _, family := range []nft.Family{nft.IPv4, nft.IPv6} {
			held, err := heldIn(conn, nft.Table{Family: family, Name: guardTable})
			if err != nil {
				return err
			}
			waits = waits || slices.ContainsFunc(held, func(a netip.Addr) bool { return slices.Contains(taken, a) })
		}
		if !waits {
			break
		}
	}
	return nil
}

// remove undoes add. It is no error if something does not exist any more.
func (c *call) remove() error {
	all, err := c.addresses.ownedBy(c.owner())
	return errors.Join(err, c.closePorts(all), c.disconnect(), forgetConnections(all), c.addresses.locked(func() error {
		err := c.addresses.free(func(owner string) bool { return owner == c.owner() })
		return errors.Join(err, c.addresses.guard(nil))
	}))
}

// status reports whether ADD would work.
func (c *call) status() error {
	if err := c.addresses.locked(func() error { return nil }); err != nil {
		return failure{codeUnavailable, fmt.Errorf("the directory of addresses cannot be used: %w", err)}
	}
	return nil
}

// garbageCollect frees the addresses of attachments that the runtime does not know.
func (c *call) garbageCollect() error {
	valid := map[string]bool{}
	for _, a := range c.Valid {
		valid[a.ContainerID+" "+a.Interface] = true
	}
	var lost []string
	err := c.addresses.forEach(func(_ netip.Addr, owner string) error {
		if !valid[owner] && !slices.Contains(lost, owner) {
			lost = append(lost, owner)
		}
		return nil
	})
	for _, owner := range lost {
		one := *c
		one.container, one.link, _ = strings.Cut(owner, " ")
		one.namespace = ""
		err = errors.Join(err, one.remove())
	}
	return err
}
