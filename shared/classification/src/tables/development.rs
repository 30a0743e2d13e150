//! Version control, builds, packages and containers.

use super::{
    BUILDS, CHANGES_LITTLE, CHANGES_MACHINE, INSTALLS, LIST, Operands, PUBLISHES, Prints, Program, READ,
    REMOVES, REVISION, SEARCHES, SHOWS, TEXT, UPDATE, USES_NETWORK, Value, program,
};

/// Git runs programs that some options and settings name; its global options are therefore not accepted.
pub(super) const VERSIONS: &[Program] = &[
    // With operands these change settings or history.
    program("git remote|git reflog").flags("v").effect(SHOWS),
    program("git status|git rev-parse|git describe|git shortlog|git stash list|git branch|git branch -a|git branch -r|git branch -v|git branch -vv|git branch --list|git branch --show-current|git tag|git tag -l|git tag --list|git reflog show|git worktree list|git submodule status|git config --list|git config --get|git version|git --version|git rev-list|git merge-base|git cherry|git count-objects|git check-ignore|git whatchanged|git stash show|git name-rev|git var")
        .flags("sbuvnepazrlc#").long("short porcelain branch show-toplevel abbrev-ref oneline all graph decorate stat tags count heads verify show-current sort merged no-merged ignored untracked-files is-inside-work-tree patch")
        .takes(&[("sort format since until author contains n", TEXT)]).each(TEXT).effect(SHOWS),
    program("git log|git diff|git show|git blame|git ls-files|git ls-tree|git cat-file|git grep|git diff-tree")
        .flags("pniswbzrotcMCEewRuaqSGlLvhk#").takes(&[("author since until after before grep format pretty date n S G L diff-filter max-count U unified skip color", TEXT)])
        .long("oneline all graph decorate stat name-only name-status cached staged numstat shortstat patch no-pager abbrev-commit merges no-merges reverse follow word-diff color no-color summary others modified exclude-standard first-parent check full-index dirstat quiet")
        .each(REVISION).prints(Prints::Paths).effect(SHOWS),
    program("git add|git commit|git switch|git stash|git stash push|git stash pop|git stash apply|git merge|git cherry-pick|git revert|git mv|git init|git branch -m|git branch -M|git checkout -b|git switch -c|git tag -a|git notes|git restore --staged|git reset HEAD|git config user.name|git config user.email|git apply|git am|git rebase --continue|git rebase --abort|git merge --abort")
        .flags("abcmpquvsAnfxke").takes(&[("m message F file author date", TEXT)])
        .long("all amend no-edit no-verify message staged patch update include-untracked index no-ff ff-only abort continue signoff allow-empty quiet cached create orphan").each(TEXT).effect(CHANGES_LITTLE),
    program("git checkout|git restore|git reset|git clean|git rm|git branch -d|git branch -D|git tag -d|git stash drop|git stash clear|git rebase|git worktree remove|git reflog expire|git gc|git prune|git remote remove|git filter-branch|git update-ref")
        .any_option().each(TEXT).effect(REMOVES),
    program("git fetch|git pull|git clone|git ls-remote|git remote update|git submodule update|git remote add|git remote show").flags("apqvtfr")
        .long("all prune tags rebase recurse-submodules init quiet ff-only single-branch bare").takes(&[("depth b branch j", TEXT)])
        .each(TEXT).effect(USES_NETWORK),
    program("git push").any_option().each(TEXT).effect(PUBLISHES),
    program("gh pr list|gh pr view|gh issue list|gh issue view|gh run list|gh run view|gh repo view|gh pr diff|gh pr status|gh pr checks")
        .any_option().each(TEXT).effect(USES_NETWORK),
    program("gh").any_option().each(TEXT).effect(PUBLISHES),
];

pub(super) const TOOLS: &[Program] = &[
    program("cargo build|cargo check|cargo test|cargo clippy|cargo fmt|cargo doc|cargo bench|cargo nextest run|cargo b|cargo c|cargo t|npm test|npm run|npm run build|npm run test|npm run lint|npm t|yarn test|yarn build|yarn lint|pnpm test|pnpm build|pnpm lint|go build|go test|go vet|go fmt|make|ninja|cmake --build|pytest|python -m pytest|python3 -m pytest|python -m unittest|python3 -m unittest|tox|nox|mvn test|mvn compile|mvn package|mvn verify|gradle build|gradle test|ctest|jest|vitest|mocha|dotnet build|dotnet test|rake test|bundle exec rspec|npx jest|npx tsc|tsc")
        .flags("vqkxsjBnrpl#").takes(&[("p package j jobs k m n E features F test target maxfail run timeout count", TEXT), ("C", UPDATE)])
        .long("workspace all all-targets all-features locked offline release check verbose quiet lib tests no-run no-default-features coverage watch noEmit nocapture message-format short tb last-failed no-header")
        .each(Value::Target).effect(BUILDS).runs_project_code(),
    program("ruff check|ruff format|ruff|black|isort|flake8|pylint|mypy|eslint|prettier|gofmt|rustfmt|shellcheck|clang-format|stylelint|npx eslint|npx prettier|yamllint|markdownlint")
        .flags("wclidrvq").takes(&[("line-length select ignore e ext max-line-length", TEXT)])
        .long("check diff write fix strict quiet verbose ignore-missing-imports").each(UPDATE).effect(BUILDS).runs_project_code(),
    program("npm list|npm ls|npm outdated|npm view|npm audit|npm version|npm --version|npm -v|npm root|npm config list|yarn list|pnpm list|pip list|pip3 list|pip show|pip3 show|pip freeze|pip3 freeze|pip --version|pip3 --version|pip check|cargo tree|cargo metadata|cargo --version|cargo version|rustc --version|rustup show|go version|go env|go list|go mod graph|node --version|node -v|python --version|python3 --version|python -V|python3 -V|java -version|java --version|gcc --version|make --version|docker --version|kubectl version|terraform version|rustup --version|ruby --version|php --version|perl --version|perl -v|go doc|cargo search|conda list|conda env list|gem list|composer show|bundle list|poetry show|uv pip list|npm search|npm fund|npm prefix|npm bin")
        .flags("gavlj#").takes(&[("depth format i e", TEXT)]).long("outdated global json all parseable no-deps installed frozen local user").each(TEXT).effect(SHOWS),
    program("kubectl get|kubectl describe").flags("Aw").takes(&[("n namespace o output l selector f filename", TEXT)])
        .long("all-namespaces watch").each(Value::Resource).effect(SEARCHES),
    program("docker ps|docker images|docker logs|docker inspect|docker stats|docker system df|docker info|docker version|docker top|docker port|docker network ls|docker volume ls|docker image ls|docker container ls|docker compose ps|docker compose logs|docker-compose ps|docker-compose logs|docker history|docker diff|docker compose config|docker context ls|kubectl logs|kubectl top|kubectl config current-context|kubectl config get-contexts|kubectl cluster-info|helm list|helm status|terraform validate|terraform fmt|terraform show|terraform plan|terraform output|minikube status")
        .flags("aqfltsAwv#").takes(&[("n namespace tail since f filter format o output l selector c container", TEXT)])
        .long("all no-trunc no-stream all-namespaces follow timestamps verbose all-containers previous").each(TEXT).effect(SEARCHES),
    program("docker build|docker pull|docker compose build|docker compose pull|docker compose up|docker-compose up|docker start|docker stop|docker restart|docker compose down|docker-compose down")
        .any_option().each(TEXT).effect(INSTALLS),
    program("docker rm|docker rmi|docker system prune|docker volume rm|docker image prune|docker container prune|docker volume prune|cargo clean|kubectl delete|helm uninstall|terraform destroy|npm uninstall|pip uninstall|pip3 uninstall")
        .any_option().each(TEXT).effect(REMOVES),
    program("npm publish|npm run deploy|npm run release|yarn publish|pnpm publish|cargo publish|cargo yank|twine upload|docker push|gem push|helm install|helm upgrade|kubectl apply|kubectl create|kubectl rollout|kubectl scale|terraform apply|vercel|netlify|flyctl|fly|heroku|serverless|cdk deploy|sam deploy|gcloud|aws|az|wrangler|make deploy|make release|make publish|make install")
        .any_option().each(TEXT).effect(PUBLISHES),
    program("npm install|npm i|npm ci|npm add|npm update|yarn|yarn add|yarn install|pnpm install|pnpm add|pip install|pip3 install|cargo install|cargo add|cargo update|cargo fetch|go get|go install|go mod tidy|go mod download|gem install|bundle install|composer install|poetry install|poetry add|uv sync|uv add|uv pip install|npx|conda install|rustup update|rustup component add|pipx install")
        .any_option().each(TEXT).effect(INSTALLS),
    program("python|python3|node|ruby|perl|php|lua|deno run|bun|tsx|ts-node|Rscript").flags("uBOEsI")
        .takes(&[("c e m r i p eval print", Value::Code)]).stops_at_operand().operands(Operands::First(Value::ProgramFile, TEXT)),
    program("java").takes(&[("jar", Value::ProgramFile), ("cp classpath", READ)]).one_dash().each(Value::Code),
    program("cargo run|go run").any_option().each(TEXT).effect(INSTALLS).runs_project_code(),
    program("gcc|g++|clang|clang++|cc|c++|javac|rustc").flags("cgOSEwv#")
        .takes(&[("o", UPDATE), ("I L include", LIST), ("D l W O std f m", TEXT), ("edition", TEXT)]).each(READ).effect(BUILDS).runs_project_code(),
    program("cmake|meson setup").takes(&[("S B G D", TEXT)]).each(LIST).effect(BUILDS).runs_project_code(),
    program("code|subl|idea").each(UPDATE).effect(CHANGES_LITTLE),
    program("vercel --version|aws --version|aws sts get-caller-identity|gcloud --version").effect(SHOWS),
    program("docker cp|docker save|docker export|docker load|docker import").any_option().each(TEXT).effect(CHANGES_MACHINE),
];
