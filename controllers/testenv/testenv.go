// Package testenv starts a real API server and etcd for the controllers' suites. Only tests import it.
package testenv

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"quarry.dev/quarry/api/v1alpha1"
)

// ErrNoAssets is the one line that a suite fails with where the cluster's programs are missing.
var ErrNoAssets = errors.New("KUBEBUILDER_ASSETS is unset: run `make kube`, or `make test`, which sets it")

// Start starts an API server with Quarry's kinds and returns how to reach and how to stop it.
func Start() (*rest.Config, func() error, error) {
	crds, err := crdFolder()
	if err != nil {
		return nil, nil, err
	}
	return start(&envtest.Environment{CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true})
}

// StartBare starts an API server that knows the built-in kinds only.
func StartBare() (*rest.Config, func() error, error) { return start(&envtest.Environment{}) }

func start(env *envtest.Environment) (*rest.Config, func() error, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, nil, ErrNoAssets
	}
	config, err := env.Start()
	if err != nil {
		return nil, nil, errors.Join(err, env.Stop())
	}
	config.QPS, config.Burst = 200, 400
	return config, env.Stop, nil
}

// Scheme holds the built-in kinds and Quarry's.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// crdFolder looks for config/crd/bases upwards from the package that is tested.
func crdFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "config", "crd", "bases"), nil
		}
	}
	return "", errors.New("no go.mod above the working directory")
}
