# Everything runs inside .venv, which `env` builds; nothing has to be activated.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHON

PYTEST_ARGS ?=
DEMO_ARGS ?=
PORT ?=
HISTORIES_ARGS ?=
MODEL_ARGS ?=
FUZZ_ARGS ?=
BENCH_ARGS ?= --publish
COMPARE_ARGS ?=
DOCS_ARGS ?=
RELEASE_ARGS ?=
OBJECTS_ARGS ?= --publish
TASK_ARGS ?=
FAR_ARGS ?= --publish
PIPELINE_ARGS ?= --publish --turns 3
WATCH_ARGS ?=
STATE_ARGS ?=
SOAK_ARGS ?=
ENGINES ?=
CATALOGS ?=
# One more than two cores: a test waits for its servers and JVMs a quarter of its time.
WORKERS ?= 3

# What `make test` leaves out below tests/: folders that are done already.
DONE ?=
# Tests that take long, and have targets of their own.
OWN_TARGETS := $(addprefix system/,apply browser cascades catalogs components cookbook dbt demo docs_site examples/test_patterns.py histories lineage metrics playback topology triggerer) docs/test_tutorial.py

.DEFAULT_GOAL := help
.PHONY: help env jars spark-jars demo ui day shell bench-capture bench-pipeline bench-objects bench-task bench-far bench-watch bench-watch-dag bench-pages bench-branches bench-state bench-many bench-metrics compare quick test test-apply test-components test-triggerer test-playback test-cascades test-topology test-demo test-browser screenshots soak test-histories test-lakes test-crash test-model test-mutants fuzz map walk check check-format fix constraints build smoke floors test-floor compatibility test-cookbook test-lineage test-metrics test-dbt test-engines test-branches test-catalogs docs docs-serve test-docs release-check bench-estimate clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: ## build .venv (needs Python 3.11+ and Java 17+)
	@scripts/bootstrap

jars: env ## download Spark's jars, and those of the servers that tests start (Nessie, S3Proxy)
	@python scripts/spark_jars.py --servers
	@python -m scripts.class_archive

spark-jars: env ## download Spark's jars for Iceberg, SQLite and PostgreSQL only, and keep its classes ready for quick starts
	@python scripts/spark_jars.py
	@python -m scripts.class_archive

demo: spark-jars ## a plain DAG and its incremental twin over the same late data, side by side (5 minutes at most)
	@uv pip install --quiet --constraint constraints.txt matplotlib
	@python scripts/demo.py $(DEMO_ARGS)

ui: spark-jars ## Airflow with the example DAGs and the demo's tables and runs, on 127.0.0.1 (PORT=8080)
	@python scripts/ui.py --port $(or $(PORT),8080)

day: env ## another day with late rows arrives in the demo's table, also while `make ui` runs
	@python scripts/day.py

shell: env ## a shell in which `airflow ips …` works on what `make demo` and `make ui` have
	@python scripts/shell.py

docs: env ## the documentation as a site, every link checked, into .artefacts/docs (DOCS_ARGS='--release 0.1')
	@uv pip install --quiet --constraint constraints.txt --requirement pyproject.toml --extra docs
	@python -m scripts.docs_site $(DOCS_ARGS)

docs-serve: ## the same on 127.0.0.1 (PORT=8000), and again whenever a page changes
	@$(MAKE) --no-print-directory docs DOCS_ARGS='--serve $(or $(PORT),8000)'

test-docs: docs ## the site in a real browser: search, both themes, a narrow window (screenshots in .artefacts/docs-site); the tutorial
	pytest tests/system/docs_site tests/docs/test_tutorial.py --numprocesses 2 --dist loadfile $(PYTEST_ARGS)

bench-capture: jars ## capture against Iceberg's Java API and PyIceberg, into docs (an hour; BENCH_ARGS=--quick: minutes)
	@case '$(BENCH_ARGS)' in *--publish*) uv pip install --quiet --constraint constraints.txt matplotlib ;; esac
	@python -m benchmarks.capture $(BENCH_ARGS)

bench-pipeline: jars ## two stages in five ways on the same data: time, bytes, and who is right (half an hour; PIPELINE_ARGS=--quick: minutes)
	@case '$(PIPELINE_ARGS)' in *--publish*) uv pip install --quiet --constraint constraints.txt matplotlib ;; esac
	@python -m benchmarks.pipeline $(PIPELINE_ARGS)

bench-objects: jars ## capture, drop and gc on S3 with 10, 30 and 100 ms a request into docs (half an hour; OBJECTS_ARGS="--delays 30")
	@python -m benchmarks.objects $(OBJECTS_ARGS)

bench-branches: jars ## captures in branches: requests at 30 ms each, a million files, a month of captures (BRANCHES_BENCH='--only requests')
	@python -m benchmarks.branches $(BRANCHES_BENCH)

bench-task: jars ## what captures and commits cost in Airflow beside an empty task, cold and warm (5 minutes)
	@python -m benchmarks.task $(TASK_ARGS)

bench-far: env ## what captures cost on tables of 100,000 to 10,000,000 files, beside a model, into docs (half an hour)
	@python -m benchmarks.far $(FAR_ARGS)

bench-watch: env ## 200 watched tables on one triggerer: its loop's lag, calls to the catalog, append to event (2 minutes)
	@python -m benchmarks.watch $(WATCH_ARGS)

bench-watch-dag: env ## one look of ips_watch at 500 tables with 1,000 consumers: loads, Variables, under 60 s (a minute)
	@python -m benchmarks.watch_dag

bench-many: env ## hours of 500 consumers on one deployment: database, scheduler and API server beside twins (MANY_ARGS='--consumers 50')
	@python -m benchmarks.many $(MANY_ARGS)

bench-metrics: env ## what metrics add to a capture, by StatsD and OpenTelemetry: less than 5 ms (a minute)
	@python -m benchmarks.metrics

bench-estimate: env ## what `airflow ips estimate` costs for 1,000,000 files in 1,000 snapshots (2 minutes)
	@python -m benchmarks.estimate $(ESTIMATE_ARGS)

bench-pages: env ## the page Incremental with 1,000 consumers: less than a second and 50 queries
	@python -m benchmarks.pages

bench-state: env ## 500 consumers and a document of 100 sources, in both stores, on SQLite and PostgreSQL (10 minutes)
	@python -m tests.system.scale $(STATE_ARGS)

compare: jars ## this package and other ways on the same tables, who is right (COMPARE_ARGS='--only merge')
	@python -m benchmarks.compare $(COMPARE_ARGS)

quick: check jars ## what answers early: check, tests of core and package, the cost of parsing (4 minutes at most)
	pytest tests/core tests/package --numprocesses $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

test: jars ## all tests but those with targets of their own (WORKERS=3, PYTEST_ARGS='-k rings')
	pytest $(addprefix --ignore tests/,$(OWN_TARGETS) $(DONE)) --numprocesses $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

test-apply: jars ## random histories applied to dimensions and groups on Spark, against a recomputation
	pytest tests/system/apply $(PYTEST_ARGS)

test-lakes: jars ## catalogs and storage that fail, refuse, vend and sign, as real servers, and a sample of test-histories
	pytest tests/system/catalogs tests/system/histories --numprocesses $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

test-components: env ## runs killed, cleared, marked and backfilled in a whole Airflow on PostgreSQL
	pytest tests/system/components --numprocesses 4 $(PYTEST_ARGS)

test-triggerer: env ## a real triggerer: killed, started again, beside another one, and with many tables
	pytest tests/system/triggerer $(PYTEST_ARGS)

soak: env ## two incremental stages under SIGKILLs, and every row counted (SOAK_ARGS='--minutes 2 --seed 7')
	@python -m tests.system.soak $(SOAK_ARGS)

test-playback: jars ## the example DAGs with their Spark jobs, over several days, through Airflow
	pytest tests/system/playback tests/system/examples/test_patterns.py --numprocesses $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

test-cascades: jars ## three stages started by table changes alone, against a full recomputation (CASCADE_DAYS=7)
	pytest tests/system/cascades $(PYTEST_ARGS)

test-topology: jars ## Spark standalone, a worker and Airflow as the stack in docker/ has them
	pytest tests/system/topology $(PYTEST_ARGS)

test-cookbook: env ## every recipe parsed and rendered with its real provider, in an environment of its own (2 GB)
	@scripts/environment cookbook --editable .
	.cache/cookbook/bin/python -m pytest tests/system/cookbook $(PYTEST_ARGS)

test-lineage: env ## what captures and commits report by OpenLineage, with Airflow's provider, in an environment of its own
	@scripts/environment lineage --editable .
	.cache/lineage/bin/python -m pytest tests/system/lineage $(PYTEST_ARGS)

test-metrics: env ## metrics of real runs in a real StatsD exporter and Prometheus, and its alerts (needs Go, apt)
	pytest tests/system/metrics $(PYTEST_ARGS)

test-dbt: jars ## dbt models over captured tables, with dbt's session method on Spark, in an environment of its own
	@scripts/environment dbt
	pytest tests/system/dbt $(PYTEST_ARGS)

test-demo: spark-jars ## `make demo`, small, and `make ui`, `make day` and `make shell` after it
	@uv pip install --quiet --constraint constraints.txt matplotlib
	pytest tests/system/demo $(PYTEST_ARGS)

test-browser: env ## people in the UI of a whole Airflow, in a real browser; screenshots into .artefacts
	pytest tests/system/browser $(PYTEST_ARGS)

screenshots: test-browser ## take the pictures of the docs again
	@cp .artefacts/browser/trigger-form-partitions.png .artefacts/browser/log.png .artefacts/browser/record.png $(addprefix .artefacts/browser/incremental-,overview.png consumer.png table.png backfill.png) docs/how-to/images/

test-engines: jars ## every engine reads one set of sources and ICDC tables, into docs (ENGINES='spark flink')
	@python -m tests.system.engines $(if $(ENGINES),$(ENGINES),--publish)
	@python -m tests.system.engines.ways $(or $(WAYS),$(ENGINES),--publish)

test-branches: jars ## captures in branches beside maintenance by five releases of Iceberg (BRANCHES_ARGS='--seed 7 --count 500')
	@python -m tests.system.branches $(BRANCHES_ARGS)

test-catalogs: jars ## one story on every catalog and storage, into docs (CATALOGS='glue hive')
	@python -m tests.system.catalogs $(if $(CATALOGS),$(CATALOGS),--publish)

test-histories: jars ## random histories on real tables against a ledger (HISTORIES_ARGS='--seed 7 --count 50')
	@python -m tests.system.histories $(HISTORIES_ARGS)

test-crash: env ## every call of capture and commit, ending badly in every way, with every recovery
	IPS_CRASH_POINTS=all pytest --numprocesses $(WORKERS) tests/checkpoints/test_every_call.py $(PYTEST_ARGS)

test-model: env ## 20,000 histories of tables and consumers, and of DAG runs, in memory against their laws (MODEL_ARGS='--seed 7 --count 500')
	@python -m tests.model $(MODEL_ARGS)

fuzz: env ## documents, filters, params, record pages and metadata files that nobody should write (FUZZ_ARGS='--seconds 60 --seed 7')
	@python -m tests.system.fuzz $(FUZZ_ARGS)

test-mutants: env ## break the checkpoint's rules in one way after another, and see their model notice each
	@python -m tests.core.mutants

map: ## draw the rooms and their imports into docs/explanation/architecture.md
	@python -m scripts.room_map

walk: env ## the way of one real append capture through rooms and modules, in order of first visit
	@python -m scripts.walk

compatibility: env ## write the tables of supported and tested versions into the README and its page
	@python -m scripts.compatibility

check: check-format ## formatter, linter, types, rings
	ruff check
	mypy
	lint-imports

check-format: env
	ruff format --check

fix: env ## let the formatter and the linter repair what they can
	ruff format
	ruff check --fix

constraints: env ## resolve constraints.txt and those of cookbook, lineage and dbt anew; what still fits stays (UPGRADE=1: newest of everything)
	uv pip compile --quiet --universal --python-version 3.11 --extra spark --extra dev --extra bench --extra docs --extra release \
		--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make constraints' \
		$(if $(UPGRADE),--upgrade) --output-file constraints.txt pyproject.toml
	UPGRADE=$(UPGRADE) scripts/environment cookbook --lock pyproject.toml
	UPGRADE=$(UPGRADE) scripts/environment lineage --lock pyproject.toml
	UPGRADE=$(UPGRADE) scripts/environment dbt --lock

build: env ## source distribution and wheel into dist/
	rm -rf dist
	python -m build --no-isolation

smoke: build ## capture and commit with the built wheel in an environment of its own
	scripts/smoke

release-check: build ## all that a release must pass: versions, changelog, built files installed and used, tests of the sdist
	@uv pip install --quiet --constraint constraints.txt --requirement pyproject.toml --extra release
	@python -m scripts.release $(RELEASE_ARGS)

floors: build ## the built wheel on Airflow 3.2.1 and 3.3.1, under Airflow's own constraints (needs a Python 3.12)
	@python scripts/floors.py

test-floor: env ## the tests of the Airflow layer, the Iceberg ring and its store on Airflow 3.2.1 (PYTEST_ARGS='-k sensor')
	@WORKERS=$(WORKERS) python scripts/floors.py --tests -- $(PYTEST_ARGS)

clean: ## remove everything that make has made
	rm -rf .venv .cache .demo .artefacts dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
