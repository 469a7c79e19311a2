SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Every Go module of the repository; ./... does not cross their borders.
MODULES := . hack/image hack/chart hack/kernels hack/plot hack/bench/engine
IMAGE ?= quarry:dev
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# An existing value wins, for example one from setup-envtest.
KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/kube
export KUBEBUILDER_ASSETS
export STATE ?= $(CURDIR)/.state/kube

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### build

.PHONY: kube
kube: ## Build the Kubernetes components once (10 minutes), for envtest and the development cluster
	@if [ "$$KUBEBUILDER_ASSETS" = "$(CURDIR)/bin/kube" ]; then hack/kube/build; else echo "kube: KUBEBUILDER_ASSETS=$$KUBEBUILDER_ASSETS is used as it is"; fi

.PHONY: build
build: ## Build bin/quarry, static
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/quarry ./cmd/quarry

.PHONY: image
image: build ## Write bin/quarry.tar, the container image, without a container builder
	cd hack/image && go run . -binary ../../bin/quarry -tag $(IMAGE) -out ../../bin/quarry.tar
	@echo "image: bin/quarry.tar is $(IMAGE)"

.PHONY: generate
generate: ## Write the generated code and manifests anew
	hack/generate

##### checks

.PHONY: lint
lint: ## Format, vet, and the linters that are installed
	hack/lint $(MODULES)

.PHONY: test
test: kube lint ## Lint, generated files, unit, property and API server tests
	hack/generate --check
	@QUARRY_TEST_S3=$$(hack/s3/s3 binary); export QUARRY_TEST_S3; \
	for module in $(MODULES); do echo "test: module $$module"; (cd "$$module" && go test ./...); done

.PHONY: test-arm64
test-arm64: ## Build for arm64, and test the encoder's kernels on emulated CPUs (needs Debian's qemu-user)
	hack/kernels/test-arm64

.PHONY: e2e
e2e: cluster-up image ## End-to-end tests with real pods on the development cluster
	hack/kube/cluster load bin/quarry.tar
	KUBECONFIG="$$(hack/kube/cluster kubeconfig)" IMAGE=$(IMAGE) go test ./test/e2e -tags e2e -v -count 1 -timeout 30m

.PHONY: kube-check
kube-check: ## Prove that the development cluster works and leaves nothing behind
	hack/kube/check

##### measurements

.PHONY: bench-encoder
bench-encoder: ## Compare the builtin encoder with ONNX Runtime int8; BAR=prefix chooses, ROUNDS=n, DATA=folder of labelled sets
	go build -o bin/bench-encoder ./hack/bench/encoder
	hack/models/make python hack/bench/encoder/bench.py bin/bench-encoder "$(or $(DATA),../shared/data)"

.PHONY: bench-quality
bench-quality: ## Measure every bar of ranking quality; BAR=prefix chooses, DATA=folder of labelled sets
	go run ./hack/bench/quality -data "$(or $(DATA),../shared/data)" -bar "$(BAR)"

.PHONY: quality-docs
quality-docs: ## Write the tables and charts of docs/quality.md anew; DATA=folder of labelled sets
	mkdir -p bin docs/img
	go run ./hack/bench/quality -data "$(or $(DATA),../shared/data)" -docs docs/quality.md -charts bin/charts.json
	cd hack/plot && go run . -in ../../bin/charts.json -out ../../docs/img

.PHONY: bench-engine
bench-engine: ## Measure the index: bm25-* beside bleve and a naive scan, hnsw-* beside hnswlib, leak-* and decoders-*; BAR=prefix chooses, DATA=folder of labelled sets
	go -C hack/bench/engine build -o ../../../bin/bench-engine .
	go build -o bin/bench-engine-hnsw ./hack/bench/hnsw
	@status=0; data="$(or $(DATA),../shared/data)"; \
	case "$(BAR)" in hnsw*|leak*|decoders*) ;; *) bin/bench-engine -bar "$(BAR)" -data "$$data" || status=1 ;; esac; \
	case "$(BAR)" in bm25*|leak*|decoders*) ;; *) bin/bench-engine-hnsw -bar "$(BAR)" -data "$$data/ann" || status=1 ;; esac; \
	case "$(BAR)" in bm25*|hnsw*) ;; *) hack/bench/leaks "$(BAR)" || status=1 ;; esac; \
	exit $$status

##### the development cluster and the demonstration

.PHONY: cluster-up
cluster-up: ## Start the development cluster and its S3 server
	hack/kube/cluster up
	hack/s3/s3 up

.PHONY: cluster-down
cluster-down: ## End the development cluster; nothing stays behind
	hack/kube/cluster down

.PHONY: demo
demo: demo-docs cluster-up image ## From two YAML files to a gated, permission-filtered search; DOCS=path for your own documents
	hack/kube/cluster load bin/quarry.tar
	DOCS="$(DOCS)" IMAGE=$(IMAGE) hack/demo/demo

.PHONY: beir
beir: beir-data cluster-up image ## Measure a labelled set on the cluster and with local eval: equal figures; DATA=folder, RECIPE=file
	hack/kube/cluster load bin/quarry.tar
	DATA="$(DATA)" RECIPE="$(RECIPE)" IMAGE=$(IMAGE) hack/beir/beir

.PHONY: beir-data
beir-data:
	@[ -f "$(DATA)/corpus.jsonl" ] || { echo "DATA=$(DATA) is not a folder with corpus.jsonl, queries.jsonl and qrels.tsv in it" >&2; exit 1; }

.PHONY: demo-docs
demo-docs:
	@[ -z "$(DOCS)" ] || [ -n "$$(find "$(DOCS)" -type f -print -quit 2>/dev/null)" ] || { echo "DOCS=$(abspath $(DOCS)) is not a folder with files in it" >&2; exit 1; }

.PHONY: demo-down
demo-down: cluster-down ## End the demonstration and everything it started
