import js from '@eslint/js'
import a11y from 'eslint-plugin-jsx-a11y'
import hooks from 'eslint-plugin-react-hooks'
import typescript from 'typescript-eslint'

export default typescript.config(
  { ignores: ['dist', 'public', 'node_modules', 'src/api/schema.d.ts', 'scripts', 'eslint.config.js', 'test-results'] },
  js.configs.recommended,
  typescript.configs.strictTypeChecked,
  a11y.flatConfigs.recommended,
  hooks.configs.flat['recommended-latest'],
  { files: ['tests/**'], rules: { 'react-hooks/rules-of-hooks': 'off' } },
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/no-confusing-void-expression': 'error',
      // The React compiler is not used.
      'react-hooks/incompatible-library': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: false }],
      // Text of agents is never HTML.
      'no-restricted-syntax': [
        'error',
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: 'Text is never shown as HTML.' },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: 'Text is never shown as HTML.' },
      ],
    },
  },
)
